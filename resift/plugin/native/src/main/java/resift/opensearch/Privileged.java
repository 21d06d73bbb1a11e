// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.function.Supplier;

/**
 * Runs code with the permissions of this plugin (plugin-security.policy), whatever code of OpenSearch has called the plugin.
 *
 * <p>OpenSearch 2 checks permissions by Java's security manager, and OpenSearch 3 by an agent. Both stop at this method when they look for
 * callers that lack a permission.
 */
final class Privileged {
    private Privileged() {}

    @SuppressWarnings("removal")
    static <T> T call(Supplier<T> code) {
        return AccessController.doPrivileged((PrivilegedAction<T>) code::get);
    }
}
