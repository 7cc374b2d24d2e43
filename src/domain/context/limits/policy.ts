import { z } from 'zod';
import { budgetOptionsSchema } from './limits.ts';

/** When and how the older part of a view is replaced; what each of them costs and keeps stands in docs/context.md. */
export const STRATEGIES = [
  'auto',
  'reactive-overflow',
  'proactive-threshold',
  'middle-removal',
  'pruning-agent',
  'manual',
] as const;
type OwnStrategy = (typeof STRATEGIES)[number];
/** One of ours, or `module:<path>#<export>`: what a module exports. */
export type StrategyName = OwnStrategy | `module:${string}`;

export const isModuleStrategy = (name: StrategyName): name is `module:${string}` => name.startsWith(MODULE_PREFIX);

const MODULE_PREFIX = 'module:';
const moduleStrategySchema = z
  .templateLiteral([MODULE_PREFIX, z.string()])
  .refine((name) => /^module:[^#\s]+(?:#[A-Za-z_$][\w$]*)?$/.test(name), 'module:<path>, or module:<path>#<export>');

/**
 * What starts a strategy by itself: the view has reached its threshold, or the next request does not fit, by our measure
 * or as the provider says. Somebody who asks starts any of them.
 */
type StrategyTrigger = 'threshold' | 'overflow';

const STRATEGY_TRIGGERS: Readonly<Record<OwnStrategy, readonly StrategyTrigger[]>> = {
  auto: ['threshold', 'overflow'],
  'reactive-overflow': ['overflow'],
  'proactive-threshold': ['threshold', 'overflow'],
  'middle-removal': ['threshold', 'overflow'],
  'pruning-agent': ['threshold', 'overflow'],
  manual: [],
};

/** Whether an agent's view is compacted for this without anybody asking for it. */
export const isStartedBy = ({ compaction }: Pick<ContextPolicy, 'compaction'>, trigger: StrategyTrigger): boolean =>
  isModuleStrategy(compaction.strategy) || STRATEGY_TRIGGERS[compaction.strategy].includes(trigger);

/** Names the session's own model as the one that summarizes: its request then reuses the cached prefix. */
export const SAME_MODEL = '__same__';

/** Who summarizes: the session's own model, another one, or an agent with its model and instructions. */
const SUMMARIZER = /^(?:__same__|agent:(?<agent>[a-z0-9][a-z0-9_-]{0,63})|[a-z0-9-]+\/.+)$/;

/** The name of the agent that summarizes; null where a model does. */
export function summarizingAgent({ compaction }: Pick<ContextPolicy, 'compaction'>): string | null {
  return SUMMARIZER.exec(compaction.model)?.groups?.['agent'] ?? null;
}

const tokens = z.number().int().positive();
const percent = z.number().min(5).max(95);

const compactionPolicySchema = z.strictObject({
  strategy: z.union([z.enum(STRATEGIES), moduleStrategySchema]).default('auto'),
  /** `provider/model` or `agent:<name>` that summarizes, or the session's own model. */
  model: z.string().regex(SUMMARIZER, `${SAME_MODEL}, provider/model, or agent:<name>`).default(SAME_MODEL),
  options: z
    .strictObject({
      /** Percent of `usable` from which a compaction is due, in place of the strategy's own. */
      thresholdPercent: percent.optional(),
      /** Messages at the end that stay verbatim, beside what the tail keeps anyway. */
      keepRecentMessages: z.number().int().positive().optional(),
      /** User turns at the end that stay verbatim, as far as the tail's budget allows. */
      preserveLastNTurns: z.number().int().positive().optional(),
      /** What the summary should pay attention to. */
      instructions: z.string().optional(),
    })
    .default({}),
  /** How clients of OpenAI's protocol learn of a compaction in mid-answer: a comment that nobody sees, or a notice. */
  notice: z.enum(['comment', 'text']).default('comment'),
});

const prunePolicySchema = z.strictObject({
  enabled: z.boolean().default(true),
  /** Percent of `usable` from which a prune may be due; never as late as a compaction. */
  thresholdPercent: percent.optional(),
  /** Newest tokens of tool outputs that no prune touches; never more than a quarter of `usable`. */
  protectTokens: tokens.optional(),
  /** A prune that frees less is not worth the broken cache. */
  minimumTokens: tokens.optional(),
  /** Tools whose outputs are never cleared. */
  protectedTools: z.array(z.string()).default([]),
});

/** What an agent says about its context. */
export const contextPolicySchema = z.strictObject({
  ...budgetOptionsSchema.shape,
  compaction: compactionPolicySchema.prefault({}),
  prune: prunePolicySchema.prefault({}),
});
export type ContextPolicy = Readonly<z.infer<typeof contextPolicySchema>>;
