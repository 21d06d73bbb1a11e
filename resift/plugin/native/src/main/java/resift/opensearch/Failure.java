// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.Locale;

/** The reasons why a search in a session is not rewritten. Such a search runs unchanged. */
enum Failure {
    /** The service did not answer within the timeout. */
    TIMEOUT(true),
    /** No connection to the service could be made, or the connection broke. */
    UNREACHABLE(true),
    /** The service refused the API key. */
    UNAUTHORIZED(true),
    /** The service refused the request with another status from 300 to 499. */
    REJECTED(false),
    /** The service answered with a status of 500 or more. */
    SERVICE_ERROR(true),
    /** The answer of the service was not the answer of Resift, or this version of OpenSearch cannot parse the search body in it. */
    UNREADABLE(true),
    /** The service was not called, because its circuit breaker was open. */
    BREAKER_OPEN(false);

    /**
     * Whether the service as a whole is to blame, not a single request. Such failures open the circuit breaker, and let the
     * next URL be tried.
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
     * Returns the failure that an HTTP status stands for.
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
