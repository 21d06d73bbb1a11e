// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.net.URI;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class EndpointTest {
    @Test
    void keepsThePathOfTheUrl() {
        assertEquals(URI.create("http://a:8080/v1/rewrite"), Endpoint.uri("http://a:8080"));
        assertEquals(URI.create("https://a/search/v1/rewrite"), Endpoint.uri("https://a/search/"));
        assertEquals(URI.create("http://[::1]:8080/v1/rewrite"), Endpoint.uri("http://[::1]:8080"));
    }

    @ParameterizedTest
    @ValueSource(strings = { "", "a:8080", "ftp://a", "http://", "http://a b", "http://u:p@a", "http://a?x=1", "http://a#x", "http://a:65536", "http://a:0", "file:///etc/passwd" })
    void refusesOtherUrls(String url) {
        assertThrows(IllegalArgumentException.class, () -> Endpoint.uri(url));
    }
}
