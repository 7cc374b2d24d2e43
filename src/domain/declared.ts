/** Longest key of a webhook or schedule, and longest name of what declares them. */
export const MAX_KEY_CHARS = 256;
export const MAX_DECLARER_CHARS = 64;

/** The declarer of files, and that of a program which names none. */
export const FILES = 'files';
export const PROGRAM = 'program';

/** Why a schedule is paused whose declaration has gone. A webhook is disabled for `undeclared`. */
export const NO_LONGER_DECLARED = 'no longer declared';
