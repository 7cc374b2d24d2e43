import type { Run } from '@baton-run/server/client';
import { createContext } from 'react';

/** The newest run, for the calls of the transcript: one of them may wait for an answer. */
export const NewestRun = createContext<Run | undefined>(undefined);
