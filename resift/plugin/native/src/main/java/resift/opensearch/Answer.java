// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.Optional;

import org.opensearch.common.xcontent.LoggingDeprecationHandler;
import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.core.xcontent.XContentParser;
import org.opensearch.search.builder.SearchSourceBuilder;

/** Reads the service's answers to {@code POST /v1/rewrite}: {@code {"body": {…}, "resift": {"rewritten": true, …}}}. */
final class Answer {
    private Answer() {}

    /**
     * Returns the rewritten search body, or nothing if the service left the search body unchanged.
     *
     * @param json     the answer
     * @param registry the parsers for query clauses of this node
     * @throws IOException      if the answer has another form
     * @throws RewriteException if OpenSearch cannot parse the rewritten search body
     */
    static Optional<SearchSourceBuilder> read(byte[] json, NamedXContentRegistry registry) throws IOException {
        try (XContentParser parser = parserAt("resift", json, registry)) {
            if (parser.map().get("rewritten") instanceof Boolean isRewritten) {
                // An unchanged body is not parsed: OpenSearch cannot parse the sections of some plugins again.
                return isRewritten ? Optional.of(body(json, registry)) : Optional.empty();
            }
        }
        throw new IOException("[resift.rewritten] is missing");
    }

    private static SearchSourceBuilder body(byte[] json, NamedXContentRegistry registry) throws IOException {
        try (XContentParser parser = parserAt("body", json, registry)) {
            return SearchSourceBuilder.fromXContent(parser, false);
        } catch (RuntimeException | StackOverflowError e) {
            throw new RewriteException(Failure.UNSUPPORTED, "OpenSearch cannot parse the rewritten search body: " + e.getMessage());
        }
    }

    /**
     * Returns a parser that has just entered an object of the answer.
     *
     * @param field    the name of the object, such as {@code body}
     * @param json     the answer
     * @param registry the parsers for query clauses of this node
     * @throws IOException if the answer has no such object
     */
    private static XContentParser parserAt(String field, byte[] json, NamedXContentRegistry registry) throws IOException {
        XContentParser parser = JsonXContent.jsonXContent.createParser(registry, LoggingDeprecationHandler.INSTANCE, json);
        try {
            if (parser.nextToken() == XContentParser.Token.START_OBJECT) {
                while (parser.nextToken() == XContentParser.Token.FIELD_NAME) {
                    boolean isHere = parser.currentName().equals(field);
                    if (parser.nextToken() == XContentParser.Token.START_OBJECT && isHere) {
                        return parser;
                    }
                    parser.skipChildren();
                }
            }
            throw new IOException("the object [" + field + "] is missing");
        } catch (IOException | RuntimeException e) {
            parser.close();
            throw e;
        }
    }
}
