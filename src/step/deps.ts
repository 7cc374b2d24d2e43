import type { ModelEntry } from '../domain/context/model-registry.ts';
import type { JobDeps } from '../jobs/job-deps.ts';
import type { Tool } from '../tools/tool.ts';
import type { ModelPort } from './model-port.ts';
import type { ModelTimeouts } from './watchdog.ts';

/** What a step needs of the world. */
export type StepDeps = JobDeps &
  Readonly<{
    models: ModelPort;
    /** What is known of the models: limits, prices, media types. */
    modelRegistry: readonly ModelEntry[];
    /** The tools of an agent by name. @throws BatonError `config_invalid` for a name that nothing provides */
    toolsOf: (names: readonly string[]) => readonly Tool[];
    modelTimeouts: ModelTimeouts;
    /** Longest time of one compaction with all its model calls, where not the default. */
    compactionTimeoutMs?: number;
    /** A random number in [0, 1). */
    random: () => number;
  }>;
