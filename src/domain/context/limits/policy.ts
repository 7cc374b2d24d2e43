import { z } from 'zod';
import { budgetOptionsSchema } from './limits.ts';

/** Ways to replace the older part of a view. docs/context.md says when each acts, and its costs and results. */
export const STRATEGIES = [
  'auto',
  'reactive-overflow',
  'proactive-threshold',
  'middle-removal',
  'pruning-agent',
  'manual',
] as const;
type OwnStrategy = (typeof STRATEGIES)[number];
/** A built-in strategy, or one that a module exports: `module:<path>#<export>`. */
export type StrategyName = OwnStrategy | `module:${string}`;

export const isModuleStrategy = (name: StrategyName): name is `module:${string}` => name.startsWith(MODULE_PREFIX);

const MODULE_PREFIX = 'module:';
const moduleStrategySchema = z
  .templateLiteral([MODULE_PREFIX, z.string()])
  .refine((name) => /^module:[^#\s]+(?:#[A-Za-z_$][\w$]*)?$/.test(name), 'module:<path>, or module:<path>#<export>');

/**
 * Reasons for an automatic start: a view at its threshold, or a request that does not fit, by our measure or the
 * provider's. A client's request starts any strategy.
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

export const isStartedBy = ({ compaction }: Pick<ContextPolicy, 'compaction'>, trigger: StrategyTrigger): boolean =>
  isModuleStrategy(compaction.strategy) || STRATEGY_TRIGGERS[compaction.strategy].includes(trigger);

/** Names the session's own model as the summarizer: its request reuses the cached prefix. */
export const SAME_MODEL = '__same__';

/** The summarizer: the session's own model, another model, or an agent with its own model and instructions. */
const SUMMARIZER = /^(?:__same__|agent:(?<agent>[a-z0-9][a-z0-9_-]{0,63})|[a-z0-9-]+\/.+)$/;

/** Name of the agent that summarizes; null: a model does. */
export function summarizingAgent({ compaction }: Pick<ContextPolicy, 'compaction'>): string | null {
  return SUMMARIZER.exec(compaction.model)?.groups?.['agent'] ?? null;
}

const tokens = z.number().int().positive();
const percent = z.number().min(5).max(95);

const compactionPolicySchema = z.strictObject({
  strategy: z.union([z.enum(STRATEGIES), moduleStrategySchema]).default('auto'),
  model: z.string().regex(SUMMARIZER, `${SAME_MODEL}, provider/model, or agent:<name>`).default(SAME_MODEL),
  options: z
    .strictObject({
      /** Percent of `usable` from which a compaction is due, instead of the strategy's own. */
      thresholdPercent: percent.optional(),
      /** Newest messages that stay verbatim beyond the tail, as far as the compaction's target allows. */
      keepRecentMessages: z.number().int().positive().optional(),
      /** The same bound in turns of the user. */
      preserveLastNTurns: z.number().int().positive().optional(),
      instructions: z.string().optional(),
    })
    .default({}),
  /** Notice of a compaction to OpenAI clients during an answer: an SSE comment, which is not shown, or text. */
  notice: z.enum(['comment', 'text']).default('comment'),
});

const prunePolicySchema = z.strictObject({
  enabled: z.boolean().default(true),
  /** Percent of `usable` from which a prune may be due; always below the compaction's. */
  thresholdPercent: percent.optional(),
  /** Newest tokens of tool outputs that no prune touches; at most a quarter of `usable`. */
  protectTokens: tokens.optional(),
  /** A prune that frees less is not worth the broken cache. */
  minimumTokens: tokens.optional(),
  protectedTools: z.array(z.string()).default([]),
});

export const contextPolicySchema = z.strictObject({
  ...budgetOptionsSchema.shape,
  compaction: compactionPolicySchema.prefault({}),
  prune: prunePolicySchema.prefault({}),
});
export type ContextPolicy = Readonly<z.infer<typeof contextPolicySchema>>;
