// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.function.Supplier;

/**
 * Runs code with the permissions of this plugin (plugin-security.policy), even if the calling code of OpenSearch has fewer permissions.
 *
 * <p>OpenSearch 2 checks permissions with Java's security manager, and OpenSearch 3 with an agent. Both check whether a caller on the stack lacks
 * a permission, and do not look beyond this method.
 */
final class Privileged {
    private Privileged() {}

    @SuppressWarnings("removal")
    static <T> T call(Supplier<T> code) {
        return AccessController.doPrivileged((PrivilegedAction<T>) code::get);
    }
}
