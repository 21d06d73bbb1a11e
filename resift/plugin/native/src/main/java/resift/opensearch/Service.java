// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.List;
import java.util.function.Supplier;

/**
 * The settings with which a processor calls the service.
 *
 * @param endpoints     the addresses, in the order in which they are tried
 * @param timeoutMillis the maximum time in milliseconds that a search waits, including all addresses
 * @param key           supplies the API key, or null if the service has no keys
 */
record Service(List<Endpoint> endpoints, long timeoutMillis, Supplier<String> key) {}
