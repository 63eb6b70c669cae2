// The suite imports `fs.globSync`, which came with Node 22, and uses it only in a command that is not run here.
// Under Node 20 its import of `fs` is answered by a module that has the name.
import * as fs from 'node:fs';
import { register } from 'node:module';

const replacement = `
export * from 'node:fs';
export { default } from 'node:fs';
export function globSync() { throw new Error('fs.globSync needs Node 22'); }
`;

const hooks = `
const replacement = 'data:text/javascript,' + ${JSON.stringify(encodeURIComponent(replacement))};
export async function resolve(specifier, context, next) {
  const suite = context.parentURL?.includes('/@modelcontextprotocol/conformance/');
  if (suite && /^(node:)?fs$/.test(specifier)) return { url: replacement, shortCircuit: true };
  return next(specifier, context);
}
`;

if (!('globSync' in fs)) register('data:text/javascript,' + encodeURIComponent(hooks));
