//! [`Disk`]: what a folder holds while a trace is replayed, and what a power loss leaves of it.
//!
//! The rules are those that SQLite relies on, and no more:
//!
//! - A sync of a file makes its earlier writes and its length durable. A sync of the folder makes its
//!   earlier creations and removals of names durable.
//! - Bytes that were not synced may be present or missing, in any order, sector by sector. The bytes
//!   next to a write do not change. Where a file has grown, a part that was not written holds zeros
//!   or arbitrary bytes.
//! - Names change in order, as in the journals of ext4, XFS and Btrfs: of the changes that were not
//!   synced, the first ones are there.
//!
//! A disk that reports a sync before it is done is not a part of this model.

use std::collections::BTreeMap;

use fastrand::Rng;
use windlass_robustness::BoxError;

use crate::{
    loss::{Change, Inode, Loss},
    trace::Op,
};

/// Files by their names within the folder.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The observer's part of the folder. It stands for the world outside: a power loss takes nothing
/// from it, so its lines date what was acknowledged in the order of the writes.
pub const OUTSIDE: &str = "outside/";

/// The name of the folder itself.
const FOLDER: &str = ".";

/// A folder during a replay.
#[derive(Debug, Default)]
pub struct Disk {
    inodes: Vec<Inode>,
    /// The durable names.
    durable: BTreeMap<String, usize>,
    /// The names as the process sees them.
    names: BTreeMap<String, usize>,
    /// How names have changed since the folder was synced.
    pending: Vec<(String, Option<usize>)>,
    /// What each descriptor is open on; `None` is the folder.
    open: BTreeMap<i32, Option<usize>>,
    /// Whether to ignore syncs, as `PRAGMA synchronous = OFF` does.
    pub ignores_syncs: bool,
}

impl Disk {
    /// A folder that holds these files, all durable.
    pub fn new(files: &Files) -> Self {
        let mut disk = Self::default();
        for (name, content) in files {
            disk.durable.insert(name.clone(), disk.inodes.len());
            disk.inodes.push(Inode {
                durable: content.clone(),
                pending: Vec::new(),
                len: content.len(),
            });
        }
        disk.names = disk.durable.clone();
        disk
    }

    /// Replays one call.
    ///
    /// # Errors
    ///
    /// When it names a file or a descriptor that does not exist.
    pub fn apply(&mut self, op: &Op) -> Result<(), BoxError> {
        match op {
            Op::Open { fd, name, truncate } => {
                let inode = (name != FOLDER).then(|| self.find(name));
                self.open.insert(*fd, inode);
                if *truncate {
                    self.change(*fd, Change::Truncate { len: 0 })?;
                }
            }
            Op::Close { fd } => {
                self.open.remove(fd).ok_or_else(|| not_open(*fd))?;
            }
            Op::Write { fd, at, data } => {
                let (at, data) = (*at, data.clone());
                self.change(*fd, Change::Write { at, data })?;
            }
            Op::Truncate { fd, len } => self.change(*fd, Change::Truncate { len: *len })?,
            Op::Sync { fd, len } => {
                let inode = *self.open.get(fd).ok_or_else(|| not_open(*fd))?;
                if let Some(replayed) = inode.map(|inode| self.inodes[inode].len)
                    && replayed != *len
                {
                    return Err(format!(
                        "a file had {len} bytes when it was synced, the trace leads to {replayed}: \
                         the recorder has missed a change"
                    )
                    .into());
                }
                if !self.ignores_syncs {
                    self.sync(inode);
                }
            }
            Op::Unlink { name } => {
                let known = self.names.remove(name);
                known.ok_or_else(|| format!("the trace removes '{name}', which is not there"))?;
                self.pending.push((name.clone(), None));
            }
        }
        Ok(())
    }

    fn find(&mut self, name: &str) -> usize {
        if let Some(inode) = self.names.get(name) {
            return *inode;
        }
        let inode = self.inodes.len();
        self.inodes.push(Inode::default());
        self.names.insert(name.to_owned(), inode);
        self.pending.push((name.to_owned(), Some(inode)));
        inode
    }

    fn change(&mut self, fd: i32, change: Change) -> Result<(), BoxError> {
        let inode = self.open.get(&fd).copied().flatten();
        let inode = inode.ok_or_else(|| not_open(fd))?;
        let inode = &mut self.inodes[inode];
        inode.len = match &change {
            Change::Write { at, data } => inode.len.max(at + data.len()),
            Change::Truncate { len } => *len,
        };
        inode.pending.push(change);
        Ok(())
    }

    fn sync(&mut self, inode: Option<usize>) {
        let Some(inode) = inode else {
            self.pending.clear();
            self.durable = self.names.clone();
            return;
        };
        let Inode {
            durable, pending, ..
        } = &mut self.inodes[inode];
        pending.drain(..).for_each(|change| change.apply(durable));
    }

    /// Whether an open file has a change that was not synced.
    pub fn has_unsynced(&self, name: &str) -> bool {
        let inode = self.names.get(name);
        inode.is_some_and(|inode| !self.inodes[*inode].pending.is_empty())
    }

    /// What a power loss leaves now.
    pub fn after(&self, loss: Loss, rng: &mut Rng) -> Files {
        let changed = match loss {
            Loss::None => self.pending.len(),
            Loss::All => 0,
            Loss::Tail | Loss::Torn { .. } => rng.usize(0..=self.pending.len()),
        };
        let mut names = self.durable.clone();
        for (name, inode) in &self.pending[..changed] {
            match inode {
                Some(inode) => names.insert(name.clone(), *inode),
                None => names.remove(name),
            };
        }
        let observer = self.names.iter().filter(|(n, _)| n.starts_with(OUTSIDE));
        names.extend(observer.map(|(name, inode)| (name.clone(), *inode)));
        let left = names.into_iter().map(|(name, inode)| {
            let loss = match name.starts_with(OUTSIDE) {
                true => Loss::None,
                false => loss,
            };
            (name, self.inodes[inode].after(loss, rng))
        });
        left.collect()
    }
}

fn not_open(fd: i32) -> BoxError {
    format!("the trace uses descriptor {fd}, which is not open").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(fd: i32, name: &str) -> Op {
        Op::Open {
            fd,
            name: name.to_owned(),
            truncate: false,
        }
    }

    fn write(fd: i32, at: usize, text: &[u8]) -> Op {
        Op::Write {
            fd,
            at,
            data: text.into(),
        }
    }

    fn disk(ops: &[Op]) -> Disk {
        let mut disk = Disk::default();
        ops.iter().for_each(|op| disk.apply(op).unwrap());
        disk
    }

    fn left(disk: &Disk, loss: Loss) -> Files {
        disk.after(loss, &mut Rng::with_seed(1))
    }

    const FOLDER_FD: i32 = 9;

    #[test]
    fn what_is_synced_stays_and_the_rest_goes() {
        let mut ops = vec![
            open(1, "a"),
            write(1, 0, b"old"),
            open(FOLDER_FD, "."),
            Op::Sync { fd: 1, len: 3 },
        ];
        assert!(left(&disk(&ops), Loss::All).is_empty());
        let folder = Op::Sync {
            fd: FOLDER_FD,
            len: 0,
        };
        ops.push(folder);
        ops.push(write(1, 1, b"ew"));
        ops.push(Op::Truncate { fd: 1, len: 2 });
        let mut disk = disk(&ops);
        assert!(disk.has_unsynced("a"));
        assert_eq!(left(&disk, Loss::All)["a"], b"old");
        assert_eq!(left(&disk, Loss::None)["a"], b"oe");
        disk.ignores_syncs = true;
        let sync = Op::Sync { fd: 1, len: 2 };
        disk.apply(&sync).unwrap();
        assert_eq!(left(&disk, Loss::All)["a"], b"old");
        disk.ignores_syncs = false;
        disk.apply(&sync).unwrap();
        assert_eq!(left(&disk, Loss::All)["a"], b"oe");
        assert!(!disk.has_unsynced("a"));
    }

    #[test]
    fn a_removed_name_comes_back_and_a_new_file_of_that_name_is_another_one() {
        let files = Files::from([("a".to_owned(), b"old".to_vec())]);
        let mut disk = Disk::new(&files);
        let unlink = Op::Unlink { name: "a".into() };
        let ops = [
            unlink,
            open(1, "a"),
            write(1, 0, b"x"),
            Op::Sync { fd: 1, len: 1 },
        ];
        for op in ops {
            disk.apply(&op).unwrap();
        }
        assert_eq!(left(&disk, Loss::All)["a"], b"old");
        assert_eq!(left(&disk, Loss::None)["a"], b"x");
        assert!(disk.apply(&write(2, 0, b"y")).is_err());
    }

    #[test]
    fn a_length_that_the_trace_does_not_lead_to_is_an_error() {
        let mut disk = disk(&[open(1, "a"), write(1, 0, b"xyz")]);
        let why = disk.apply(&Op::Sync { fd: 1, len: 2 }).unwrap_err();
        assert!(why.to_string().contains("has missed a change"), "{why}");
    }

    #[test]
    fn each_sector_is_kept_or_not_and_nothing_else_changes() {
        let files = Files::from([("a".to_owned(), vec![b'o'; 2048])]);
        let mut disk = Disk::new(&files);
        disk.apply(&open(1, "a")).unwrap();
        disk.apply(&write(1, 100, &[b'n'; 2900])).unwrap();
        let torn = |garbage| Loss::Torn {
            sector: 512,
            keep: 0.5,
            garbage,
        };
        let mut shapes = std::collections::BTreeSet::new();
        let mut arbitrary = false;
        for seed in 0..200 {
            let found = &disk.after(torn(false), &mut Rng::with_seed(seed))["a"];
            assert!(found[..100].iter().all(|b| *b == b'o'));
            assert!(found.iter().all(|b| [b'o', b'n', 0].contains(b)));
            let starts = [100, 512, 1024, 1536, 2048, 2560];
            shapes.insert(starts.map(|at| found.get(at).copied()));
            let found = &disk.after(torn(true), &mut Rng::with_seed(seed))["a"];
            assert!(found[..2048].iter().all(|b| [b'o', b'n'].contains(b)));
            arbitrary |= found[2048..].iter().any(|b| ![b'n', 0].contains(b));
        }
        assert!(shapes.len() > 60, "{}", shapes.len());
        assert!(arbitrary);
    }

    #[test]
    fn the_observer_loses_nothing() {
        let disk = disk(&[open(1, "outside/a"), write(1, 0, b"acknowledged")]);
        assert_eq!(left(&disk, Loss::All)["outside/a"], b"acknowledged");
    }
}
