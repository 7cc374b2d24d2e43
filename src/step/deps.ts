import type { ModelCheck } from '../agents/configured-models.ts';
import type { JobDeps } from '../jobs/job-deps.ts';
import type { DescribeModel } from '../model/describe-model.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { ModelPort } from './model-port.ts';
import type { TextAppender } from './text-appender.ts';
import type { ModelTimeouts } from './watchdog.ts';

/** What a step needs of the world. */
export type StepDeps = JobDeps &
  Readonly<{
    models: ModelPort;
    describeModel: DescribeModel;
    modelCheck: Pick<ModelCheck, 'hasCostQuota'>;
    toolsOf: ToolCatalogue;
    modelTimeouts: ModelTimeouts;
    appendText: TextAppender;
    /** Whether prompts, answers and the inputs of tools go into spans. Default: they do not. */
    traceContent?: boolean;
    /** Longest time of one compaction with all its model calls, where not the default. */
    compactionTimeoutMs?: number;
    /** A random number in [0, 1). */
    random: () => number;
  }>;
