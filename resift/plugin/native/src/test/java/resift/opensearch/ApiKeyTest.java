// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.function.Supplier;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ApiKeyTest {
    @TempDir
    private Path config;

    @Test
    void readsTheFileAgainAfterAChange() throws IOException {
        Path file = config.resolve("key");
        Files.writeString(file, "rsf_old\n");
        Supplier<String> key = ApiKey.inFile(config, "key");
        assertEquals("rsf_old", key.get());
        Files.writeString(file, "rsf_new\n");
        Files.setLastModifiedTime(file, FileTime.fromMillis(1_000));
        assertEquals("rsf_new", key.get());
    }

    @ParameterizedTest
    @ValueSource(strings = { "", "\n", "two words", "two\nlines", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", "é" })
    void refusesFilesThatContainSomethingElse(String content) throws IOException {
        Files.writeString(config.resolve("key"), content);
        RewriteException error = assertThrows(RewriteException.class, ApiKey.inFile(config, "key")::get);
        assertEquals(Failure.UNAUTHORIZED, error.failure);
    }

    @Test
    void aMissingFileIsAFailureOfTheSearchOnly() {
        Supplier<String> key = ApiKey.inFile(config, "key");
        assertThrows(RewriteException.class, key::get);
    }

    @ParameterizedTest
    @ValueSource(strings = { "../key", "a/../../key", "/etc/passwd" })
    void refusesPathsOutOfTheConfigDirectory(String name) {
        assertThrows(IllegalArgumentException.class, () -> ApiKey.inFile(config, name));
    }
}
