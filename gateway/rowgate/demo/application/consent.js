// The builder's part of the OAuth flow: sign the user in, show what is asked, carry the decision back.

const AUTH = "/auth/v1";
const authorizationId = new URLSearchParams(location.search).get("authorization_id") ?? "";
const element = (id) => document.getElementById(id);

let publishableKey = "";
let accessToken = "";

async function call(method, path, body) {
  const headers = { apikey: publishableKey, "content-type": "application/json" };
  if (accessToken) headers.authorization = `Bearer ${accessToken}`;
  const answer = await fetch(AUTH + path, { method, headers, body: body && JSON.stringify(body) });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.msg ?? said.message ?? `The server answered ${answer.status}.`);
  return said;
}

function show(id) {
  for (const part of ["sign-in", "request"]) element(part).hidden = part !== id;
}

function explain(error) {
  element("message").textContent = error ? error.message : "";
  element("message").hidden = !error;
}

function leave(url) {
  // What a client registered was checked by the server; this page still runs no script for it.
  if (new URL(url).protocol === "javascript:") throw new Error("The application's address is not allowed.");
  show(null);
  location.assign(url);
}

async function review() {
  const asked = await call("GET", `/oauth/authorizations/${encodeURIComponent(authorizationId)}`);
  if (asked.redirect_url) return leave(asked.redirect_url);
  element("client").textContent = asked.client.name || "An application without a name";
  element("user").textContent = asked.user.email;
  const target = new URL(asked.redirect_uri);
  element("destination").textContent = `${target.protocol}//${target.host}`;
  element("scopes").replaceChildren(
    ...asked.scope.split(" ").map((scope) => Object.assign(document.createElement("li"), { textContent: scope })),
  );
  show("request");
}

async function decide(action) {
  const decided = await call("POST", `/oauth/authorizations/${encodeURIComponent(authorizationId)}/consent`, { action });
  leave(decided.redirect_url);
}

async function signIn() {
  accessToken = "";
  const credentials = { email: element("email").value, password: element("password").value };
  accessToken = (await call("POST", "/token?grant_type=password", credentials)).access_token;
  await review();
}

function offer(people) {
  for (const person of people) {
    const button = Object.assign(document.createElement("button"), {
      type: "button",
      textContent: person.name || person.email,
    });
    button.addEventListener("click", () => {
      element("email").value = person.email;
      element("password").value = person.password;
    });
    element("people").append(button);
  }
  element("people").hidden = people.length === 0;
  if (people.length) element("people").querySelector("button").click();
}

const guarded = (action) => async (event) => {
  event?.preventDefault();
  explain(null);
  try {
    await action();
  } catch (error) {
    explain(error);
  }
};

element("sign-in").addEventListener("submit", guarded(signIn));
element("approve").addEventListener("click", guarded(() => decide("approve")));
element("deny").addEventListener("click", guarded(() => decide("deny")));

await guarded(async () => {
  if (!authorizationId) throw new Error("This page is opened by an application that wants to connect.");
  const facts = await (await fetch("/oauth/consent.json")).json();
  publishableKey = facts.publishable_key;
  offer(facts.people);
  show("sign-in");
})();
