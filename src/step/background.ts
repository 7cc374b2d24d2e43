import { type JobScope, logFields } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import { type ProviderResponse, responseToReadAgain } from '../domain/model/provider-response.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import { noteProviderResponse, readProviderResponses } from '../store/work/provider-responses.ts';
import type { Answering } from './answering.ts';
import type { ModelCallResult } from './call-model.ts';
import type { StepDeps } from './deps.ts';

/** The model of a step, whose answer may be made in the background. */
export type Asking = AsyncDisposable &
  Readonly<{
    resolved: ResolvedModel;
    /** To be called when the model call is over: an answer that no attempt will want is stopped at the provider. */
    ended: (result: ModelCallResult) => void;
  }>;

/**
 * Lets the provider make the answer in the background where it does so. The id of its response becomes durable at once,
 * so that the next worker can ask for the same answer again; that of an earlier attempt is read in place of a new one.
 */
export async function askInBackground({ deps, scope, messageId, context }: Answering): Promise<Asking> {
  const { resolved } = context;
  const { background } = resolved;
  if (background === undefined)
    return { resolved, ended: () => undefined, [Symbol.asyncDispose]: async () => undefined };
  const { held, fence, runId, stepNo } = scope;
  const attempts = await retryWhileStoreUnavailable(held, () => readProviderResponses(deps.db, runId, stepNo));
  const earlier = responseToReadAgain(attempts.filter(({ superseded }) => superseded));
  let reported: ProviderResponse | null = null;
  let noted = Promise.resolve();
  let stopped = Promise.resolve();
  const onResponse = (response: ProviderResponse, isEarlier: boolean): void => {
    reported = response;
    if (isEarlier) deps.log('info', { event: 'answer_read_again', ...logFields(scope), responseId: response.id });
    const note = () => noteProviderResponse(deps.db, fence, messageId, response);
    // Without the note the next attempt asks the model again.
    noted = retryWhileStoreUnavailable(held, note).catch(() => undefined);
  };
  return {
    resolved: { ...resolved, model: background.call({ earlier, onResponse }) },
    ended(result) {
      if (reported !== null && isUnwanted(scope, result)) stopped = background.cancel(reported);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([noted, stopped]);
    },
  };
}

/** Not where another worker goes on, nor where the connection broke: then the next attempt reads it again. */
function isUnwanted({ held }: JobScope, { response, end, failure }: ModelCallResult): boolean {
  if (response !== null) return false;
  const why = held.stopped();
  if (why !== null) return why === 'cancelled';
  return end.kind === 'stopped' || failure?.class === 'timeout';
}

/** Stops the response of a dead worker's step at the provider, since its run was cancelled. Never rejects. */
export async function stopLeftResponse(deps: StepDeps, { agent, runId, stepNo }: JobScope): Promise<void> {
  try {
    const { background, provider } = deps.models(agent.model);
    if (background === undefined) return;
    const [newest] = await readProviderResponses(deps.db, runId, stepNo);
    if (newest?.response.provider === provider) await background.cancel(newest.response);
  } catch {
    // The provider is not configured any more, or Postgres is away: the answer goes on to its end unread.
  }
}
