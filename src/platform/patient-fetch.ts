import { Agent, type Dispatcher, EnvHttpProxyAgent, fetch as undiciFetch } from 'undici';

/**
 * `fetch` without time limits of its own. That of Node gives up when no headers, or no bytes of a body, came for 300
 * seconds, whatever its caller allows: a local model may need longer to read a prompt, and each new attempt begins
 * anew. The caller's signal ends it. A proxy is used where Node's own fetch would use one.
 */
export const patientFetch: typeof fetch = (input, init) => {
  // The package is the one that is built into Node. Only its types have other names.
  const ask = undiciFetch as unknown as (input: unknown, init: object) => Promise<Response>;
  return ask(input, { ...init, dispatcher: patientDispatcher() });
};

let dispatcher: Dispatcher | undefined;

function patientDispatcher(): Dispatcher {
  const limits = { headersTimeout: 0, bodyTimeout: 0 };
  dispatcher ??= usesProxy() ? new EnvHttpProxyAgent(limits) : new Agent(limits);
  return dispatcher;
}

/** By Node's own switches. https://nodejs.org/api/http.html#built-in-proxy-support */
const usesProxy = (): boolean =>
  process.env['NODE_USE_ENV_PROXY'] === '1' || process.execArgv.includes('--use-env-proxy');
