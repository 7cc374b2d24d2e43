import { Client, SdkError, SdkErrorCode, type VersionNegotiationOptions } from '@modelcontextprotocol/client';
import { failureOf } from './failure.ts';
import type { HttpTransport } from './http-transport.ts';
import { ANSWER_TIMEOUT_MS, withOwnSignal } from './requests.ts';
import { TASK_EXTENSION } from './task.ts';

type ConnectedClient = Readonly<{
  client: Client;
  terminate: () => Promise<void>;
  /** The transport's last error, which says more than the close event that follows it. */
  last: { error: unknown };
}>;

/** Connects to a server, in the newest revision of the protocol that both speak. @throws errors of the SDK */
export type Connect = (open: () => HttpTransport, signal: AbortSignal) => Promise<ConnectedClient>;

/**
 * Asks the server for its revisions first. One that is not clearly of 2026-07-28 or later is one of the older ones, as
 * odd as its answer to that question may be, and is not asked again while it is used.
 * @param discoverTimeoutMs for the answer to that question: some of the older ones give none
 */
export function createNegotiation(discoverTimeoutMs: number): Connect {
  let isLegacy = false;
  return async (open, signal) => {
    if (!isLegacy) {
      try {
        const connected = await attempt(open, { mode: 'auto', probe: { timeoutMs: discoverTimeoutMs } }, signal);
        isLegacy = connected.client.getProtocolEra() === 'legacy';
        return connected;
      } catch (error) {
        const isUnanswered = isOfDiscovery(error) && !signal.aborted && failureOf(rootOf(error), signal) !== 'unsent';
        if (!isUnanswered) throw rootOf(error);
      }
    }
    try {
      const connected = await attempt(open, { mode: 'legacy' }, signal);
      isLegacy = true;
      return connected;
    } catch (error) {
      isLegacy = false;
      throw error;
    }
  };
}

async function attempt(
  open: () => HttpTransport,
  versionNegotiation: VersionNegotiationOptions,
  stop: AbortSignal,
): Promise<ConnectedClient> {
  const { transport, terminate } = open();
  const capabilities = { extensions: { [TASK_EXTENSION]: {} } };
  const client = new Client({ name: 'baton', version: '1' }, { versionNegotiation, capabilities });
  const last: { error: unknown } = { error: undefined };
  client.onerror = (error) => {
    last.error = error;
    // The SDK has given up a stream that may carry the answer to a call: without a close the call would wait in vain.
    if (error.message.startsWith('Maximum reconnection attempts')) void client.close();
  };
  // The SDK's question for the revisions hears of no signal.
  const hangUp = (): void => void transport.close().catch(() => undefined);
  stop.addEventListener('abort', hangUp, { once: true });
  try {
    await withOwnSignal(stop, (signal) => client.connect(transport, { timeout: ANSWER_TIMEOUT_MS, signal }));
    return { client, terminate, last };
  } catch (error) {
    await client.close().catch(() => undefined);
    // That the connection was closed says less than what closed it.
    const isClosed = error instanceof SdkError && error.code === SdkErrorCode.ConnectionClosed;
    throw isClosed ? (last.error ?? error) : error;
  } finally {
    stop.removeEventListener('abort', hangUp);
  }
}

/** Whether the question for the revisions failed: a server that answered it was asked to initialize as well. */
function isOfDiscovery(error: unknown): error is SdkError {
  if (!(error instanceof SdkError)) return false;
  const isSilent = error.code === SdkErrorCode.RequestTimeout && error.message.startsWith('Version negotiation');
  return isSilent || error.code === SdkErrorCode.EraNegotiationFailed;
}

/** Of that question the SDK only says that it failed. */
const rootOf = (error: unknown): unknown => (isOfDiscovery(error) ? (error.cause ?? error) : error);
