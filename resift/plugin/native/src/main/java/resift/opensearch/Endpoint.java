// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.net.URI;

/**
 * One address of the service.
 *
 * @param url     the base URL, as it is configured
 * @param rewrite the URL that rewrites a search body
 * @param breaker the circuit breaker, which all pipelines with this URL share
 */
record Endpoint(String url, URI rewrite, Breaker breaker) {
    /**
     * Creates an endpoint with a closed breaker.
     *
     * @param url an http or https URL without query and fragment
     * @throws IllegalArgumentException if the URL has another form
     */
    static Endpoint of(String url) {
        return new Endpoint(url, uri(url), new Breaker(System::nanoTime));
    }

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
        if (isHttp == false || base.getHost() == null || base.getUserInfo() != null || base.getQuery() != null || base.getFragment() != null) {
            throw malformed(url);
        }
        return URI.create((url.endsWith("/") ? url.substring(0, url.length() - 1) : url) + "/v1/rewrite");
    }

    private static IllegalArgumentException malformed(String url) {
        return new IllegalArgumentException("[url] must be an http or https URL such as http://127.0.0.1:8080, but is [" + url + "]");
    }
}
