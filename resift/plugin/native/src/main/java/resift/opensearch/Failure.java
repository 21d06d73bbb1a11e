// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.Locale;

/** The reasons why a search in a session is not rewritten. Such a search runs unchanged. */
enum Failure {
    /** The service did not answer within the timeout. */
    TIMEOUT(true),
    /** No connection to the service could be made, or the connection broke. */
    UNREACHABLE(true),
    /** The service refused the API key, or the key file cannot be read. */
    UNAUTHORIZED(true),
    /**
     * The service refused this request, with another status below 500 than 200, 401, 403 and 429. Or the search was not sent: its body is too long,
     * or cannot be written as JSON, or its point in time is malformed or empty.
     */
    REJECTED(false),
    /** The service answered with the status 429, or with 500 or more. */
    SERVICE_ERROR(true),
    /** The answer did not come from Resift, or it is too long. */
    UNREADABLE(true),
    /** This version of OpenSearch cannot run the rewritten search body. */
    UNSUPPORTED(false),
    /** The plugin itself failed. */
    INTERNAL_ERROR(false),
    /** The service was not called, because its circuit breaker was open. */
    BREAKER_OPEN(false);

    /**
     * Whether the service as a whole failed, not a single request. After such a failure, the next URL is tried. Several such failures in a
     * row open the circuit breaker.
     */
    final boolean concernsService;

    Failure(boolean concernsService) {
        this.concernsService = concernsService;
    }

    /** Returns the name in statistics and log lines. */
    String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * Converts the HTTP status of an answer to a failure.
     *
     * @param status a status other than 200
     */
    static Failure ofStatus(int status) {
        if (status == 401 || status == 403) {
            return UNAUTHORIZED;
        }
        return status == 429 || status >= 500 ? SERVICE_ERROR : REJECTED;
    }
}
