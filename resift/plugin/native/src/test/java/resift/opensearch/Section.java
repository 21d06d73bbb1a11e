// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.Map;

import org.opensearch.core.common.io.stream.StreamOutput;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.search.SearchExtBuilder;

/** A section of another plugin. */
final class Section extends SearchExtBuilder {
    private final String name;
    private final Map<String, Object> fields;

    Section(String name, Map<String, Object> fields) {
        this.name = name;
        this.fields = fields;
    }

    @Override
    public String getWriteableName() {
        return name;
    }

    @Override
    public XContentBuilder toXContent(XContentBuilder builder, Params params) throws IOException {
        for (Map.Entry<String, Object> field : fields.entrySet()) {
            builder.field(field.getKey(), field.getValue());
        }
        return builder;
    }

    @Override
    public void writeTo(StreamOutput out) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean equals(Object other) {
        return this == other;
    }

    @Override
    public int hashCode() {
        return name.hashCode();
    }
}
