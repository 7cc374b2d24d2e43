/** The next states of each state. A state without any is terminal. */
export type Transitions<State extends string> = Readonly<Record<State, readonly State[]>>;

export function isTerminalIn<State extends string>(transitions: Transitions<State>, state: State): boolean {
  return transitions[state].length === 0;
}

/** False for staying in a state. */
export function canMoveIn<State extends string>(transitions: Transitions<State>, from: State, to: State): boolean {
  return transitions[from].includes(to);
}

/** The CHECK of a column that holds a state. The migrations have it verbatim; a test compares. */
export function sqlCheck(column: string, states: readonly string[]): string {
  return `${column} in (${states.map((state) => `'${state}'`).join(', ')})`;
}
