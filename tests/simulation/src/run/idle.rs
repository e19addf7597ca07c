//! [`Idle`]: what other programs do to an etcd while nothing happens in the namespace: they write much, and the history before is
//! compacted. A feed that was told the progress goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use super::driver::Driver;

/// How many revisions other programs write.
const REVISIONS: u32 = 150;
/// How long a report of progress takes, at most.
const REPORTED: Duration = Duration::from_millis(400);

const ASKED: u8 = 1;
const OVER: u8 = 2;

/// What the clients have asked for. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Idle(Arc<AtomicU8>);

impl Idle {
    /// Asks for it.
    pub(super) fn ask(&self) {
        self.0.store(ASKED, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OVER
    }
}

impl Driver {
    /// Writes beside the namespace when the clients follow its changes, and compacts what was before.
    pub(super) fn be_idle(&mut self) {
        if self.shared.idle.0.load(Ordering::Relaxed) != ASKED {
            return;
        }
        match self.written_beside {
            None if self.servers.is_followed(0) => {
                let revision = self.servers.write_beside(REVISIONS);
                self.written_beside = Some((self.now, revision));
            }
            Some((at, revision)) if self.now > at + REPORTED => {
                self.servers.compact_before(revision);
                self.shared.network.break_all(Some(0));
                self.shared.idle.0.store(OVER, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}
