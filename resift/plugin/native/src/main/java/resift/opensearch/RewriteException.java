// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

/** The reason why a search was not rewritten. It has no stack trace, because it is created for every search while the service is down. */
final class RewriteException extends RuntimeException {
    final Failure failure;

    /**
     * @param failure the kind of failure, which is counted
     * @param detail  details for the log
     */
    RewriteException(Failure failure, String detail) {
        super(failure.label() + ": " + detail, null, false, false);
        this.failure = failure;
    }
}
