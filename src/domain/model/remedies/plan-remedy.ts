import type { ProviderErrorClass } from '../provider-error-rules.ts';
import type { ProviderErrorSignals } from '../provider-errors.ts';
import { type Adaptation, type AdaptationKind, adapt, isSame } from './adaptation.ts';
import { LEAVABLE_FIELDS, MAX_REFUSAL_CHARS, REFUSING_STATUSES, REMEDY_RULES } from './remedy-rules.ts';

/** What a refused request had. */
export type RefusedRequest = Readonly<{
  /** The names of its tools, in their order. */
  tools: readonly string[];
  /** The keys of its files, in groups: the ones that came last, then all. A group is left out as a whole. */
  files: readonly (readonly string[])[];
  /** The changes that it was already made with. */
  adaptations: readonly Adaptation[];
}>;

/** A step is asked again so often with another change. */
export const MAX_REMEDIES_PER_STEP = 6;

/** Most changes that are made at once: each is a file or a tool. */
export const MAX_CHANGES = 100;

/** Classes whose refusal may be one of the request's form. A size, a rate or a key has remedies of its own. */
const CLASSES: readonly ProviderErrorClass[] = [
  'invalid_request',
  'malformed_history',
  'transport',
  'model_unavailable',
];

/** The changes with which a refused request is made once more. Empty: the words have no remedy, or it was tried. */
export function planRemedy(
  errorClass: ProviderErrorClass,
  { status, texts }: Pick<ProviderErrorSignals, 'status' | 'texts'>,
  request: RefusedRequest,
): readonly Adaptation[] {
  if (!CLASSES.includes(errorClass) || !REFUSING_STATUSES.includes(status)) return [];
  const beginnings = texts.map((text) => text.slice(0, MAX_REFUSAL_CHARS));
  for (const { text, remedies, parameter } of REMEDY_RULES) {
    const match = beginnings.map((beginning) => text.exec(beginning)).find((found) => found !== null);
    if (match == null) continue;
    for (const kind of remedies) {
      const groups = { ...(parameter !== undefined && { parameter }), ...match.groups };
      const planned = changesOf(kind, groups, request).filter(
        (change) => !request.adaptations.some((each) => isSame(each, change)),
      );
      if (planned.length > 0) return planned.slice(0, MAX_CHANGES);
    }
  }
  return [];
}

type Groups = Readonly<Record<string, string | undefined>>;

function changesOf(kind: AdaptationKind, groups: Groups, request: RefusedRequest): readonly Adaptation[] {
  switch (kind) {
    case 'return_thoughts':
      return [adapt(kind, fieldOf(groups['field']))];
    case 'omit_file': {
      const isOmitted = (url: string): boolean =>
        request.adaptations.some((each) => isSame(each, adapt('omit_file', url)));
      const group = request.files.find((urls) => urls.some((url) => !isOmitted(url)));
      return (group ?? []).map((url) => adapt(kind, url));
    }
    case 'simple_schema':
    case 'omit_tool': {
      const name = toolOf(groups, request.tools);
      if (name !== null) return [adapt(kind, name)];
      return kind === 'simple_schema' ? request.tools.map((tool) => adapt(kind, tool)) : [];
    }
    case 'without_parameter': {
      const { parameter = 'response_format' } = groups;
      return LEAVABLE_FIELDS.has(parameter) ? [adapt(kind, parameter)] : [];
    }
    default:
      return [adapt(kind)];
  }
}

const fieldOf = (field = 'reasoning_content'): string => field.replaceAll(/[`'"]/g, '').toLowerCase();

function toolOf({ tool, index }: Groups, tools: readonly string[]): string | null {
  if (tool !== undefined) return tools.find((name) => name === tool) ?? null;
  return index === undefined ? null : (tools[Number(index)] ?? null);
}
