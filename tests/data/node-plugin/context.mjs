// Verifies the gateway's context as docs/reference/context.md says, with nothing but Node's own modules.

import { createHash, createHmac, createPublicKey, timingSafeEqual, verify } from "node:crypto";

const TYPE = "rowgate-context+jwt";
const VERSIONS = new Set([1]);
const ALGORITHMS = { OKP: "EdDSA", oct: "HS256" };
const KINDS = new Set(["user", "application", "public", "gateway"]);
const GATEWAY_METHODS = new Set([
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
]);
const MAX_LIFETIME = 300;
const MAX_TOKEN = 32 * 1024;

export class ContextError extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

export class ContextVerifier {
  constructor(jwks, { audience, issuer = null, leeway = 5, capacity = 131072, clock = () => Date.now() / 1000 }) {
    Object.assign(this, { audience, issuer, leeway, capacity, clock });
    this.keys = new Map(jwks.keys.map((jwk) => [jwk.kid, readKey(jwk)]));
    this.seen = new Map();
  }

  // `tokens`: every value of the header; `authorizations` likewise. `body`: the bytes as they came.
  verify(tokens, body, authorizations) {
    const now = this.clock();
    const claims = readClaims(this.#open(tokens));
    if (this.issuer !== null && claims.iss !== this.issuer) throw new ContextError("issuer");
    if (claims.aud !== this.audience) throw new ContextError("audience");
    const lifetime = claims.exp - claims.iat;
    if (lifetime <= 0 || lifetime > MAX_LIFETIME) throw new ContextError("lifetime");
    if (claims.iat > now + this.leeway) throw new ContextError("not_yet_valid");
    if (claims.exp <= now - this.leeway) throw new ContextError("expired");
    checkKind(claims);
    if (!same(claims.digest, digest(body))) throw new ContextError("digest");
    checkCredential(claims.ath, authorizations);
    this.#spend(claims.jti, claims.exp + this.leeway, now);
    return claims;
  }

  #open(tokens) {
    if (tokens.length === 0 || tokens[0] === "") throw new ContextError("missing");
    const segments = tokens.length === 1 && tokens[0].length <= MAX_TOKEN ? tokens[0].split(".") : [];
    if (segments.length !== 3) throw new ContextError("malformed");
    const header = readObject(segments[0]);
    const members = Object.keys(header);
    if (header.typ !== TYPE || members.some((name) => !["alg", "kid", "typ"].includes(name)))
      throw new ContextError("malformed");
    const key = this.keys.get(header.kid);
    if (key === undefined) throw new ContextError("unknown_key");
    if (header.alg !== key.algorithm) throw new ContextError("algorithm");
    const signature = Buffer.from(segments[2], "base64url");
    if (!key.holds(Buffer.from(`${segments[0]}.${segments[1]}`), signature)) throw new ContextError("signature");
    return readObject(segments[1]);
  }

  #spend(jti, until, now) {
    // Contexts live about equally long, so those that came first are the first to go.
    for (const [old, end] of this.seen) {
      if (end > now) break;
      this.seen.delete(old);
    }
    if (this.seen.has(jti)) throw new ContextError("replayed");
    if (this.seen.size >= this.capacity) throw new ContextError("capacity");
    this.seen.set(jti, until);
  }
}

export function digest(bytes) {
  return createHash("sha256").update(bytes).digest("base64url");
}

function readKey(jwk) {
  const algorithm = ALGORITHMS[jwk.kty];
  if (algorithm === "HS256") {
    const secret = Buffer.from(jwk.k, "base64url");
    return { algorithm, holds: (data, mac) => equal(createHmac("sha256", secret).update(data).digest(), mac) };
  }
  if (algorithm !== "EdDSA" || jwk.crv !== "Ed25519" || jwk.d !== undefined) throw new Error("not a public key");
  const key = createPublicKey({ key: jwk, format: "jwk" });
  return { algorithm, holds: (data, signature) => verify(null, data, key, signature) };
}

function readObject(segment) {
  let value;
  try {
    if (!/^[A-Za-z0-9_-]+$/.test(segment)) throw new Error("not base64url");
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(segment, "base64url")));
  } catch {
    throw new ContextError("malformed");
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new ContextError("malformed");
  return value;
}

function readClaims(claims) {
  if (!VERSIONS.has(claims.ver)) throw new ContextError("version");
  const text = (name) => typeof claims[name] === "string" && claims[name] !== "";
  const required = ["iss", "aud", "jti", "kind", "server", "method", "request_id", "digest"].every(text);
  const times = Number.isSafeInteger(claims.iat) && Number.isSafeInteger(claims.exp);
  const optional = ["sub", "ath", "client_id"].every((name) => claims[name] === undefined || text(name));
  if (!required || !times || !optional || !KINDS.has(claims.kind)) throw new ContextError("malformed");
  return claims;
}

function checkKind({ kind, sub, ath, method }) {
  const alone = sub === undefined && ath === undefined && GATEWAY_METHODS.has(method);
  if (kind === "gateway" ? !alone : kind !== "public" && sub === undefined) throw new ContextError("kind");
}

function checkCredential(ath, authorizations) {
  if (ath === undefined && authorizations.length === 0) return;
  const bearer = authorizations.length === 1 ? /^bearer (.+)$/is.exec(authorizations[0]) : null;
  if (ath === undefined || bearer === null || !same(ath, digest(bearer[1]))) throw new ContextError("credential");
}

function same(one, other) {
  return equal(Buffer.from(one), Buffer.from(other));
}

function equal(one, other) {
  return one.length === other.length && timingSafeEqual(one, other);
}
