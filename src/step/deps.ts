import type { JobDeps } from '../claims/job-deps.ts';
import type { ModelCheck } from '../model/configured-models.ts';
import type { DescribeModel } from '../model/describe-model.ts';
import type { ModelPort } from '../model/model-port.ts';
import type { ModelTimeouts } from '../model/watchdog.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { StepWriter } from './step-writer.ts';
import type { TextAppender } from './text-appender.ts';

export type StepDeps = JobDeps &
  Readonly<{
    models: ModelPort;
    describeModel: DescribeModel;
    modelCheck: Pick<ModelCheck, 'hasCostQuota'>;
    toolsOf: ToolCatalogue;
    modelTimeouts: ModelTimeouts;
    appendText: TextAppender;
    writes: StepWriter;
    /** Whether prompts, answers and tool inputs go into spans. Default: false. */
    traceContent?: boolean;
    /** Longest time of one compaction with all its model calls, if not the default. */
    compactionTimeoutMs?: number;
    /** A random number in [0, 1). */
    random: () => number;
  }>;
