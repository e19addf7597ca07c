//! What a registration of a remote worker does, and which server speaks for it.

use windlass_statemachine::{Invalid, NodeName, TaskId};

use crate::store::{Error, Lease, NewWorker, NodeSpec, Speaker};

/// What a registration does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// No live node has the name: a new lease is granted.
    New,
    /// The worker lives: its lease is renewed, and it is described again.
    Again,
}

/// What the store keeps of the live node with the name of a new worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holder<'a> {
    Node,
    /// A worker, with the hash of its secret.
    Worker(&'a str),
}

/// Refuses a claim of a remote worker for a task that its lease has claimed: a new fence would shut out the handler that
/// may run.
pub(crate) fn check_claims_once(lease: &Lease, task: &TaskId) -> Result<(), Error> {
    match lease.speaker {
        Some(_) => Err(Error::Claimed(task.clone())),
        None => Ok(()),
    }
}

/// Refuses a registration without [`NodeSpec::worker`].
pub(crate) fn check(worker: &NewWorker) -> Result<(), Invalid> {
    if worker.spec.worker.is_some() {
        return Ok(());
    }
    let reason = "is missing: a remote worker states its machine and its client library; a node of this process joins \
                  with `join`";
    Err(Invalid::new("worker", reason))
}

/// Refuses a description that makes a worker of a node, or a node of a worker.
pub(crate) fn check_description(is_worker: bool, spec: &NodeSpec) -> Result<(), Invalid> {
    let reason = match (is_worker, spec.worker.is_some()) {
        (true, false) => {
            "is missing: the lease is that of a remote worker; describe it with its machine"
        }
        (false, true) => {
            "is set: the lease is not that of a remote worker; register one with `join_worker`"
        }
        _ => return Ok(()),
    };
    Err(Invalid::new("worker", reason))
}

/// Returns the error for a lease that is not that of a remote worker.
pub(crate) fn not_a_worker(node: &NodeName) -> Invalid {
    let reason = format!("'{node}' is not a remote worker; register one with `join_worker`");
    Invalid::new("worker", reason)
}

/// Decides what a registration does, from the live node that has the name.
pub(crate) fn register(
    worker: &NewWorker,
    live: Option<Holder<'_>>,
) -> Result<Registration, Error> {
    match live {
        None => Ok(Registration::New),
        Some(Holder::Worker(secret)) if secret == worker.secret => Ok(Registration::Again),
        Some(_) => Err(Error::node_exists(&worker.spec.name)),
    }
}

/// Decides whether a server becomes the speaker of a worker. Returns whether the stored speaker changes: a repeated
/// call of the same server changes nothing.
pub(crate) fn speaks(
    worker: &NodeName,
    stored: &Speaker,
    speaker: &Speaker,
) -> Result<bool, Error> {
    if stored == speaker {
        return Ok(false);
    }
    if speaker.seq > stored.seq {
        return Ok(true);
    }
    Err(other_speaker(worker, stored))
}

/// Refuses a claim of a server that is not the stored speaker.
pub(crate) fn check_speaker(lease: &Lease, stored: &Speaker) -> Result<(), Error> {
    match &lease.speaker {
        Some(speaker) if speaker != stored => Err(other_speaker(&lease.node, stored)),
        _ => Ok(()),
    }
}

fn other_speaker(worker: &NodeName, stored: &Speaker) -> Error {
    Error::OtherSpeaker {
        worker: worker.clone(),
        server: stored.server.clone(),
        seq: stored.seq,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::RemoteWorker;

    fn worker(secret: &str) -> NewWorker {
        let mut spec = NodeSpec::new("w".parse().unwrap());
        spec.worker = Some(RemoteWorker::default());
        NewWorker::new(spec, secret, Duration::from_secs(1))
    }

    #[test]
    fn a_name_belongs_to_one_secret() {
        let new = worker("a");
        assert_eq!(register(&new, None).unwrap(), Registration::New);
        let same = register(&new, Some(Holder::Worker("a")));
        assert_eq!(same.unwrap(), Registration::Again);
        for other in [Holder::Worker("b"), Holder::Worker(""), Holder::Node] {
            let refused = register(&new, Some(other));
            assert!(
                matches!(refused, Err(Error::AlreadyExists { .. })),
                "{other:?}"
            );
        }
    }

    #[test]
    fn a_greater_seq_takes_the_place() {
        let name = "w".parse().unwrap();
        let stored = Speaker::new("a", 3);
        let asks = |server: &str, seq| speaks(&name, &stored, &Speaker::new(server, seq));
        assert!(asks("b", 4).unwrap());
        assert!(asks("a", 4).unwrap());
        assert!(!asks("a", 3).unwrap(), "a repeated call");
        for (server, seq) in [("b", 3), ("a", 2), ("b", 0)] {
            let refused = asks(server, seq);
            let Err(Error::OtherSpeaker { server, seq, .. }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!((&*server, seq), ("a", 3));
        }
        let first = speaks(&name, &Speaker::default(), &Speaker::new("a", 1));
        assert!(first.unwrap());
    }

    #[test]
    fn a_claim_without_a_speaker_is_not_compared() {
        let mut lease = Lease::new(1, "w".parse().unwrap(), Duration::from_secs(1));
        let stored = Speaker::new("a", 3);
        check_speaker(&lease, &stored).unwrap();
        lease.speaker = Some(stored.clone());
        check_speaker(&lease, &stored).unwrap();
        for other in [Speaker::new("b", 3), Speaker::new("a", 4)] {
            assert!(check_speaker(&lease, &other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_node_stays_what_it_is() {
        let (worker, node) = (worker("a").spec, NodeSpec::new("n".parse().unwrap()));
        check_description(true, &worker).unwrap();
        check_description(false, &node).unwrap();
        for wrong in [
            check_description(true, &node),
            check_description(false, &worker),
        ] {
            assert_eq!(wrong.unwrap_err().field(), "worker");
        }
        let plain = NewWorker::new(node, "a", Duration::from_secs(1));
        assert_eq!(check(&plain).unwrap_err().field(), "worker");
    }
}
