// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/** Reads the API key of the service. */
final class ApiKey {
    /** The longest file that can contain a key, in bytes. */
    private static final int MAX_BYTES = 1024;
    private static final Pattern FORM = Pattern.compile("[!-~]{1,512}");

    private ApiKey() {}

    /**
     * Returns a supplier of the key in a file. The supplier reads the file again if the file has changed.
     *
     * @param config the folder of the node's configuration
     * @param name   the path of the file, relative to {@code config}
     * @throws IllegalArgumentException if the path leads out of {@code config}
     */
    static Supplier<String> inFile(Path config, String name) {
        Path file = config.resolve(name).normalize();
        if (Path.of(name).isAbsolute() || file.startsWith(config.normalize()) == false) {
            throw new IllegalArgumentException("[key_file] must be a path inside the config directory, but is [" + name + "]");
        }
        return new Supplier<>() {
            private String key;
            private Object readVersion;

            @Override
            public synchronized String get() {
                try {
                    Object version = Files.getLastModifiedTime(file);
                    if (version.equals(readVersion) == false) {
                        key = read(file);
                        readVersion = version;
                    }
                } catch (IOException e) {
                    throw new RewriteException(Failure.UNAUTHORIZED, "the key file [" + name + "] cannot be read: " + e.getMessage());
                }
                return key;
            }
        };
    }

    /**
     * Reads a key from a file.
     *
     * @throws IOException if the file cannot be read, or does not consist of a single line without spaces. This check also prevents a
     *                     pipeline from sending other files of the configuration directory, such as private keys, to its URL.
     */
    private static String read(Path file) throws IOException {
        if (Files.size(file) > MAX_BYTES) {
            throw new IOException("it has more than " + MAX_BYTES + " bytes");
        }
        return check(Files.readString(file).strip(), "it");
    }

    private static String check(String key, String subject) throws IOException {
        if (FORM.matcher(key).matches() == false) {
            throw new IOException(subject + " must be one line of 1 to 512 printable ASCII characters without spaces");
        }
        return key;
    }
}
