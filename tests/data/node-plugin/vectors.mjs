// node vectors.mjs vectors.json: prints one line for each vector that this verifier judges otherwise.

import { readFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { ContextError, ContextVerifier } from "./context.mjs";

const vectors = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { audience, issuer, leeway } = vectors;
const secret = {
  kty: "oct",
  k: Buffer.from(vectors.secret).toString("base64url"),
};
// RFC 7638 section 3: the required members of an oct key, in order.
secret.kid = createHash("sha256").update(JSON.stringify({ k: secret.k, kty: "oct" })).digest("base64url");
const jwks = { keys: [...vectors.jwks.keys, secret] };

function judged({ now, token, body, authorization, verified_before: before }) {
  const verifier = new ContextVerifier(jwks, { audience, issuer, leeway, clock: () => now });
  const listed = (value) => (value === null ? [] : [value]);
  const verify = () => verifier.verify(listed(token), Buffer.from(body), listed(authorization));
  if (before) verify();
  try {
    return { context: verify() };
  } catch (error) {
    if (error instanceof ContextError) return { reason: error.reason };
    throw error;
  }
}

let wrong = 0;
const complain = (name, expected, found) => {
  wrong += 1;
  console.log(`${name}: expected ${expected}, found ${found}`);
};
for (const vector of vectors.valid) {
  const { context, reason } = judged(vector);
  const members = ["iss", "aud", "kind", "sub", "method", "jti", "digest", "ath", "email", "server"];
  const other = context ? members.filter((name) => (context[name] ?? null) !== (vector.context[name] ?? null)) : [];
  const scope = context ? (context.scope ?? "").split(" ").filter(Boolean).sort().join() : "";
  if (!context) complain(vector.name, "a context", reason);
  else if (other.length) complain(vector.name, "the same claims", other);
  else if (scope !== vector.context.scope.join()) complain(vector.name, vector.context.scope, scope);
}
for (const vector of vectors.invalid) {
  const { reason } = judged(vector);
  if (reason !== vector.reason) complain(vector.name, vector.reason, reason);
}
console.log(`${vectors.valid.length + vectors.invalid.length} vectors, ${wrong} judged otherwise`);
process.exit(wrong ? 1 : 0);
