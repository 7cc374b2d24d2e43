/** Where each state may go. A state that goes nowhere is terminal. */
export type Transitions<State extends string> = Readonly<Record<State, readonly State[]>>;

/** True when nothing leads out of the state. */
export function isTerminalIn<State extends string>(transitions: Transitions<State>, state: State): boolean {
  return transitions[state].length === 0;
}

/** True when the machine allows the step; staying in a state is not a step. */
export function canMoveIn<State extends string>(transitions: Transitions<State>, from: State, to: State): boolean {
  return transitions[from].includes(to);
}

/** The SQL CHECK of a column that holds a state: the migrations carry it verbatim, a test compares. */
export function sqlCheck(column: string, states: readonly string[]): string {
  return `${column} in (${states.map((state) => `'${state}'`).join(', ')})`;
}
