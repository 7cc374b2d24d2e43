import { type Adaptation, isSame } from '../domain/model/remedies/adaptation.ts';
import type { ResolvedModel } from './model-port.ts';

/** The model, asked with the changes that its endpoint wants. */
export function adaptModel(resolved: ResolvedModel, adaptations: readonly Adaptation[]): ResolvedModel {
  const all = adaptations.filter((one, at) => adaptations.findIndex((other) => isSame(one, other)) === at);
  if (all.length === 0) return resolved;
  return { ...resolved, ...resolved.adapted?.(all), adaptations: all };
}

/** Whether the model is shown earlier calls as calls. Some endpoints take none in a request that offers no tools. */
export const showsCalls = (
  { adaptations = [] }: Pick<ResolvedModel, 'adaptations'>,
  takesTools: boolean,
  tools: readonly unknown[],
): boolean => takesTools && (tools.length > 0 || !adaptations.some(({ kind }) => kind === 'calls_as_text'));

/** The URLs of the files that the provider of the model could not read. */
export const omittedFilesOf = ({ adaptations = [] }: Pick<ResolvedModel, 'adaptations'>): ReadonlySet<string> =>
  new Set(adaptations.flatMap(({ kind, detail }) => (kind === 'omit_file' ? [detail] : [])));
