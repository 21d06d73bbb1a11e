// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.net.URI;

/**
 * One address of the service.
 *
 * @param url         the base URL, as it is configured
 * @param breaker     the circuit breaker, which all pipelines with this URL share
 * @param connections the idle connections
 */
record Endpoint(String url, Breaker breaker, Connections connections) {
    private static final int MAX_PORT = 65_535;

    /**
     * Returns the URL that rewrites a search body.
     *
     * @param url the base URL of the service
     * @throws IllegalArgumentException if {@code url} is not an http or https URL, or has a user, a query or a fragment
     */
    static URI uri(String url) {
        URI base;
        try {
            base = URI.create(url);
        } catch (IllegalArgumentException e) {
            throw malformed(url);
        }
        boolean isHttp = "http".equals(base.getScheme()) || "https".equals(base.getScheme());
        if (base.getPort() == 0 || base.getPort() > MAX_PORT) {
            throw malformed(url);
        }
        if (isHttp == false || base.getHost() == null || base.getUserInfo() != null || base.getQuery() != null || base.getFragment() != null) {
            throw malformed(url);
        }
        return URI.create((url.endsWith("/") ? url.substring(0, url.length() - 1) : url) + "/v1/rewrite");
    }

    private static IllegalArgumentException malformed(String url) {
        return new IllegalArgumentException("[url] must be an http or https URL such as http://127.0.0.1:8080, but is [" + url + "]");
    }
}
