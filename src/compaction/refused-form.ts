import { logFields } from '../claims/job-scope.ts';
import type { Adaptation } from '../domain/model/remedies/adaptation.ts';
import { planRemedy } from '../domain/model/remedies/plan-remedy.ts';
import { adaptModel } from '../model/adapt-model.ts';
import type { ModelFailure } from '../model/model-error.ts';
import { rememberAdaptations } from '../store/work/model-limits.ts';
import type { ModelRequest } from './model-request.ts';
import type { CompactionWork } from './work.ts';

/** A request that its provider refused for its form, made once more with the changes that answer the words. */
export type Remade = Readonly<{ request: ModelRequest; changes: readonly Adaptation[] }>;

/** The request with the changes that answer a refusal, as a step makes them. Null: there are none. */
export async function remadeRequest(
  { deps, scope }: CompactionWork,
  request: ModelRequest,
  failure: ModelFailure,
): Promise<Remade | null> {
  const { resolved, files = [], remake } = request;
  const changes = planRemedy(failure.class, failure.signals, {
    tools: request.tools.map(({ name }) => name),
    files,
    adaptations: resolved.adaptations ?? [],
  });
  const isPossible = resolved.adapted !== undefined || changes.every(({ kind }) => kind === 'omit_file');
  if (changes.length === 0 || !isPossible) return null;
  const model = `${resolved.provider}/${resolved.modelId}`;
  const kinds = [...new Set(changes.map(({ kind }) => kind))];
  deps.log('warn', { event: 'request_adapted', ...logFields(scope), model, changes: kinds });
  const all = [...(resolved.adaptations ?? []), ...changes];
  const remade = remake === undefined ? { ...request, resolved: adaptModel(resolved, all) } : await remake(all);
  return remade === null ? null : { request: remade, changes };
}

/** Remembers the changes with which the provider took the request, for all sessions of the tenant. */
export async function rememberChanges(
  { deps, scope }: CompactionWork,
  { resolved: { provider, endpoint, modelId } }: ModelRequest,
  changes: readonly Adaptation[],
): Promise<void> {
  await rememberAdaptations(deps.db, scope.tenantId, { provider, endpoint, model: modelId }, changes);
}
