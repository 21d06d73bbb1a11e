// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

import org.opensearch.core.common.ParsingException;
import org.opensearch.core.common.io.stream.StreamInput;
import org.opensearch.core.common.io.stream.StreamOutput;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.core.xcontent.XContentParser;
import org.opensearch.search.SearchExtBuilder;

/**
 * The section {@code ext.resift} of a search body, which contains the session id and further options.
 *
 * <p>This class stores the options without checking them, because the service checks them. A new option therefore needs no new plugin.
 */
final class ResiftExt extends SearchExtBuilder {
    static final String NAME = "resift";
    private static final String SESSION = "session";

    private final Map<String, Object> options;

    /**
     * @param options the options by name
     */
    ResiftExt(Map<String, Object> options) {
        this.options = options;
    }

    /**
     * Reads a section that another node has sent.
     *
     * @param in the data from the other node
     */
    ResiftExt(StreamInput in) throws IOException {
        this(in.readMap());
    }

    /**
     * Reads the section from a search body.
     *
     * @param parser a parser that is at the beginning of the section
     * @throws ParsingException if the section is neither an object nor null
     */
    static ResiftExt fromXContent(XContentParser parser) throws IOException {
        return switch (parser.currentToken()) {
            case START_OBJECT -> new ResiftExt(parser.map());
            case VALUE_NULL -> new ResiftExt(Map.of());
            default -> throw new ParsingException(
                parser.getTokenLocation(),
                "[ext." + NAME + "] must be an object such as {\"session\": \"anna\"}, but is [" + parser.currentToken() + "]"
            );
        };
    }

    /** Returns whether the section names a session. A name that is not a string counts, too, so that the service reports it. */
    boolean hasSession() {
        Object session = options.get(SESSION);
        return session != null && session.equals("") == false;
    }

    /** Returns the keys of the section if it has keys, but no key {@code session}. Otherwise returns an empty set. */
    Set<String> keysWithoutSession() {
        return options.containsKey(SESSION) ? Set.of() : options.keySet();
    }

    @Override
    public String getWriteableName() {
        return NAME;
    }

    @Override
    public void writeTo(StreamOutput out) throws IOException {
        out.writeMap(options);
    }

    @Override
    public XContentBuilder toXContent(XContentBuilder builder, Params params) throws IOException {
        return builder.field(NAME, options);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof ResiftExt ext && options.equals(ext.options);
    }

    @Override
    public int hashCode() {
        return Objects.hash(NAME, options);
    }
}
