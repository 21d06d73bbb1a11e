// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import org.opensearch.search.pipeline.SystemGeneratedProcessor;

/** A processor that OpenSearch generates for a single search. */
final class SystemGeneratedRewriteProcessor extends RewriteProcessor implements SystemGeneratedProcessor {
    private final ExecutionStage stage;

    /**
     * @param tag           the name that OpenSearch gives to generated processors
     * @param description   the description that OpenSearch gives to generated processors
     * @param ignoreFailure whether OpenSearch ignores errors of this processor, which reports none
     * @param rewriting     the parts that all processors of this node share
     * @param service       the settings with which the processor calls the service
     * @param stage         whether the processor runs before or after those of the search pipeline, if there is one
     */
    SystemGeneratedRewriteProcessor(
        String tag,
        String description,
        boolean ignoreFailure,
        Rewriting rewriting,
        Service service,
        ExecutionStage stage
    ) {
        super(tag, description, ignoreFailure, rewriting, service);
        this.stage = stage;
    }

    @Override
    public ExecutionStage getExecutionStage() {
        return stage;
    }
}
