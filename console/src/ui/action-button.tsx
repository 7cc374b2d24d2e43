import type { ReactNode } from 'react';

type ActionButtonProps = Readonly<{
  run: () => void;
  /** Why it cannot be done with this key or in this state. */
  refused?: string | undefined;
  look?: 'main' | 'danger' | 'plain';
  keys?: string;
  isBusy?: boolean;
  title?: string;
  children: ReactNode;
}>;

/** A button of an action. Where it is refused, it says why. */
export function ActionButton(props: ActionButtonProps): ReactNode {
  const { run, refused, look = 'plain', keys, isBusy = false, title, children } = props;
  return (
    <button
      type="button"
      className={`button small ${look === 'plain' ? '' : look}`}
      disabled={refused !== undefined || isBusy}
      title={refused ?? title}
      onClick={run}
    >
      {children}
      {keys !== undefined && <kbd className="kbd">{keys}</kbd>}
    </button>
  );
}
