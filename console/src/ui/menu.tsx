import { Menu as Base } from '@base-ui/react/menu';
import { type ReactNode, useState } from 'react';
import { useKeys } from '../keys.ts';

export type MenuAction = Readonly<{
  words: string;
  run: () => void;
  keys?: string | undefined;
  isDangerous?: boolean;
  /** Why it cannot be done now. */
  refused?: string | undefined;
}>;

/** A button with a list of actions. */
export function ActionMenu({
  label,
  actions,
  children,
  className = 'icon-button',
  shortcut,
}: Readonly<{
  label: string;
  actions: readonly MenuAction[];
  children: ReactNode;
  className?: string;
  /** A key that opens it. */
  shortcut?: string;
}>): ReactNode {
  const [isOpen, setOpen] = useState(false);
  useKeys('Session', shortcut === undefined ? {} : { [shortcut]: [label, () => setOpen(true)] });
  return (
    <Base.Root open={isOpen} onOpenChange={setOpen}>
      <Base.Trigger className={className} aria-label={label} title={label}>
        {children}
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} align="end" className="z-30 outline-none">
          <Base.Popup className="floating min-w-44 p-1 outline-none">
            {actions.map(({ words, run, keys, isDangerous, refused }) => (
              <Base.Item
                key={words}
                className={`menu-item ${isDangerous === true ? 'text-failed' : ''}`}
                disabled={refused !== undefined}
                title={refused}
                onClick={run}
              >
                <span className="flex-1">{words}</span>
                {keys !== undefined && <span className="kbd">{keys}</span>}
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
