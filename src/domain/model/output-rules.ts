import type { OutputFormat, OutputMode, OutputState } from '../run/output-format.ts';
import { isStrict } from '../run/output-schema.ts';
import { claudeVersion } from './claude-version.ts';
import type { ModelProtocol } from './shown-media.ts';

/**
 * Whether a provider makes answers fit a schema itself.
 * - `with_tools`: also in requests with tools, which the model goes on to call
 * - `alone`: only in requests without tools; else it calls none, or refuses
 * - `never`
 */
type NativeSupport = 'with_tools' | 'alone' | 'never';

/** The first row that matches decides. A row without models matches every model of its protocols. */
type OutputRule = Readonly<{
  protocols: readonly ModelProtocol[];
  matches?: (modelId: string) => boolean;
  native: NativeSupport;
  /** It takes only schemas of the strict kind. */
  strictOnly?: true;
}>;

const OPENAI = ['openai-responses', 'openai-chat'] as const;

/**
 * - OpenAI: since gpt-4o-2024-08-06. https://platform.openai.com/docs/guides/structured-outputs
 * - Anthropic: since Claude 4.5. https://docs.anthropic.com/en/docs/build-with-claude/structured-outputs
 * - Other servers decode by a grammar, and a model that must write JSON cannot call a tool. Gemini refuses both at once:
 *   "Function calling with a response mime type: 'application/json' is unsupported".
 */
export const OUTPUT_RULES: readonly OutputRule[] = [
  {
    protocols: OPENAI,
    matches: (id) => /^(gpt-3\.5|gpt-4(-|$)|gpt-4o-2024-05-13|o1-(mini|preview)|chatgpt-4o)/.test(id),
    native: 'never',
  },
  { protocols: OPENAI, native: 'with_tools' },
  {
    protocols: ['anthropic-messages'],
    matches: (id) => (claudeVersion(id) ?? 0) >= 405,
    native: 'with_tools',
    strictOnly: true,
  },
  { protocols: ['anthropic-messages'], native: 'never' },
  { protocols: ['openai-compatible'], native: 'alone' },
];

function nativeSupport(schema: unknown, { protocol, modelId }: Asking): NativeSupport {
  const rule = OUTPUT_RULES.find(
    ({ protocols, matches }) => protocols.includes(protocol) && matches?.(modelId) !== false,
  );
  if (rule === undefined || (rule.strictOnly === true && !isStrict(schema))) return 'never';
  return rule.native;
}

/**
 * How a request asks for the result.
 * - `native`: by the provider's own field
 * - `tool`: by the tool `final_result`
 * - `text`: in words, as JSON in the answer's text
 * - `later`: not in this step
 */
export type OutputBy = 'native' | 'tool' | 'text' | 'later';

export type OutputRequest = Readonly<{
  by: OutputBy;
  /** With `none` the model may call no tool of the request; with `omitted` the request has none. */
  tools: 'callable' | 'none' | 'omitted';
}>;

type Asking = Readonly<{
  protocol: ModelProtocol;
  modelId: string;
  /** Whether the request has tools, and whether the model takes any. */
  hasTools: boolean;
  takesTools: boolean;
}>;

export function planOutput({ mode = 'auto', schema }: OutputFormat, state: OutputState, at: Asking): OutputRequest {
  const support = nativeSupport(schema, at);
  switch (chosenMode(mode, support, at)) {
    case 'native':
      return { by: 'native', tools: 'callable' };
    case 'tool':
      return { by: 'tool', tools: 'callable' };
    default:
      if (at.hasTools && state.isLast !== true) return { by: 'later', tools: 'callable' };
      if (support === 'alone') return { by: 'native', tools: 'omitted' };
      return { by: support === 'never' ? 'text' : 'native', tools: 'none' };
  }
}

function chosenMode(mode: OutputMode, support: NativeSupport, { hasTools, takesTools }: Asking): OutputMode {
  if (mode === 'tool') return takesTools ? 'tool' : 'last';
  if (mode !== 'auto') return mode;
  if (support === 'with_tools' || (support === 'alone' && !hasTools)) return 'native';
  return takesTools ? 'tool' : 'last';
}
