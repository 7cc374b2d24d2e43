/** The next states of each state. A state without any is terminal. */
export type Transitions<State extends string> = Readonly<Record<State, readonly State[]>>;

export function isTerminalIn<State extends string>(transitions: Transitions<State>, state: State): boolean {
  return transitions[state].length === 0;
}
