// A hybrid search of a backend, in a session: node search.mjs QUERY SESSION [PIPELINE]
// npm install @opensearch-project/opensearch
import { Client } from "@opensearch-project/opensearch";

const [query, session, search_pipeline] = process.argv.slice(2);
const client = new Client({ node: process.env.OPENSEARCH_URL ?? "http://127.0.0.1:9200" });
const resift = process.env.RESIFT_URL ?? "http://127.0.0.1:8080";

/** Return the search body, rewritten by the session. If the service fails or is slow, return the body unchanged. */
async function rewrite(index, body, session) {
  try {
    const answer = await fetch(`${resift}/v1/rewrite`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(process.env.RESIFT_API_KEY && { Authorization: `Bearer ${process.env.RESIFT_API_KEY}` }) },
      body: JSON.stringify({ index, body: { ...body, ext: { resift: { session } } } }),
      signal: AbortSignal.timeout(1000),
    });
    if (!answer.ok) return body;
    return (await answer.json()).body;
  } catch {
    return body;
  }
}

let body = {
  query: { hybrid: { queries: [{ match: { text: query } }, { term: { section: "news" } }] } },
  size: 5,
};
body = await rewrite("papers", body, session); // the only line to add
const answer = await client.search({ index: "papers", body, ...(search_pipeline && { search_pipeline }) });
console.log(answer.body.hits.hits.map((hit) => hit._id).join(" "));
await client.close();
