//! [`Coordinator`] for [`PlantedStore`].

use std::time::Duration;

use futures::{StreamExt, stream};
use windlass::{
    Command, Effects, Fence, Kind, NodeName, Outcome, Signal, StateKind, TaskId, async_trait,
    clock::Clock,
    store::{
        Claimed, Commit, Coordinator, Error, EventStream, Filter, IfExists, Lease, Limits,
        LogWrite, NewWorker, NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Page, Registry,
        Speaker, WorkerRecord,
    },
};

use super::{defect::Defect, journal::Call, repeated::spread, store::PlantedStore, watch};

#[async_trait]
impl Coordinator for PlantedStore {
    fn limits(&self) -> Limits {
        Coordinator::limits(&self.inner)
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.write(Call::Join(node.clone(), ttl));
        let joined = self.inner.join(node, ttl).await;
        if self.has(Defect::NamesAreShared) && joined.is_err() {
            let nodes = self.inner.nodes().await?;
            if let Some(other) = nodes.iter().find(|other| other.spec.name == node.name) {
                let id = other.lease;
                let node = node.name.clone();
                return Ok(Lease::new(id, node, ttl));
            }
        }
        joined
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.write(Call::Renew(lease.clone(), status.clone()));
        let mut lease = lease.clone();
        if self.has(Defect::EveryServerRecordsTheStatus) {
            lease.speaker = None;
        }
        match self.inner.renew(&lease, status).await {
            Err(Error::Fenced(_)) if self.has(Defect::EndedLeasesAreRenewed) => Ok(()),
            renewed => renewed,
        }
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        if self.has(Defect::DescriptionsAreForgotten) {
            return Ok(());
        }
        self.memory.lock().unwrap().described = true;
        self.write(Call::Describe(lease.clone(), node.clone()));
        match self.inner.describe(lease, node).await {
            Err(Error::Fenced(_)) if self.has(Defect::EndedLeasesAreDescribed) => Ok(()),
            described => described,
        }
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        if self.has(Defect::LeavingIsForgotten) {
            return Ok(());
        }
        self.write(Call::Leave(lease.clone()));
        self.inner.leave(lease).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        if self.has(Defect::AbandonedClaimsAreReleased) {
            return self.leave(lease).await;
        }
        self.write(Call::Abandon(lease.clone()));
        self.inner.abandon(lease).await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        let kinds = kinds.filter(|_| !self.has(Defect::EveryKindIsDelivered));
        let events = self.inner.watch(lease, kinds).await?;
        let Some(defect) = self.defect else {
            return Ok(events);
        };
        let (memory, lease) = (self.memory.clone(), lease.id);
        let broken = watch::broken(events, defect, memory, lease);
        if defect == Defect::WatchesOutliveTheirLease {
            return Ok(broken.chain(stream::pending()).boxed());
        }
        Ok(broken)
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        let (tasks, places) = self.taken(tasks, TaskId::clone);
        self.take_long().await;
        let mut lease = lease.clone();
        lease.speaker = lease
            .speaker
            .filter(|_| !self.has(Defect::SpeakersAreNotCompared))
            .filter(|_| !self.has(Defect::WorkersClaimAgain));
        self.write(Call::Claim(lease.clone(), tasks.clone()));
        let mut answers = self.inner.claim(&lease, tasks).await;
        for claimed in answers.iter_mut().flatten().flatten() {
            match self.defect {
                Some(Defect::FencesRepeat) => {
                    let mut memory = self.memory.lock().unwrap();
                    let task = claimed.claim.task.clone();
                    memory.fences.insert(task, claimed.claim.fence);
                    claimed.claim.fence = Fence(1);
                    claimed.state.fence = Fence(1);
                }
                Some(Defect::CommandsReplaceEachOther) => {
                    let last = claimed.commands.pop();
                    claimed.commands = last.into_iter().collect();
                }
                Some(Defect::LossesAreNotCounted) => claimed.abandoned = false,
                Some(Defect::OverLimitIsNotMarked) => claimed.over_limit = false,
                Some(Defect::LatenessCountsTheRun) => {
                    claimed.ready = Some(claimed.task.start_at.unwrap_or_default());
                }
                Some(Defect::OutcomesOfWaitsAreForgotten) => {
                    if let Some(waits) = &mut claimed.state.waits {
                        waits.outcomes.clear();
                    }
                }
                Some(Defect::PayloadsAreForgotten) => {
                    for queued in &mut claimed.commands {
                        if let Command::Signal(signal) = &queued.command {
                            queued.command = Command::Signal(Signal::new(signal.name()));
                        }
                    }
                }
                _ => {}
            }
        }
        spread(answers, &places)
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        let (mut commits, places) = self.taken(commits, |commit| commit.claim.task.clone());
        let mut refused = vec![false; commits.len()];
        for (n, commit) in commits.iter_mut().enumerate() {
            let Commit {
                claim, write, log, ..
            } = commit;
            let mut memory = self.memory.lock().unwrap();
            match self.defect {
                Some(Defect::FencesRepeat) => {
                    if let Some(fence) = memory.fences.get(&claim.task) {
                        (claim.fence, write.state.fence) = (*fence, *fence);
                    }
                }
                Some(Defect::DataVersionsAreNotStored) => write.state.data_version = 1,
                Some(Defect::RepliesAreForgotten) => {
                    for (_, outcome) in &mut write.outcomes {
                        if matches!(outcome, Outcome::Answered { .. }) {
                            *outcome = Outcome::Unanswered;
                        }
                    }
                }
                Some(Defect::LinesOfCommitsAreForgotten) => *log = None,
                Some(Defect::EffectsAreDropped) => write.effects = Effects::default(),
                Some(Defect::EffectsOnTasksAreDropped) => {
                    write.effects.delete.clear();
                    write.effects.retry.clear();
                    write.effects.reschedule.clear();
                }
                Some(Defect::GuardsOfMessagesAreIgnored) => write.effects.require.clear(),
                Some(Defect::EffectsRefuseEveryTakenId) => {
                    for submit in &mut write.effects.submit {
                        submit.if_exists = IfExists::Refuse;
                    }
                }
                Some(Defect::RepeatedWritesAreRefused) => {
                    let written = (claim.fence, write.state.version);
                    let before = memory.written.insert(claim.task.clone(), written);
                    refused[n] = before == Some(written);
                }
                Some(Defect::OutcomesAreOverwritten) => {
                    memory.outcomes.extend(write.outcomes.iter().cloned());
                }
                _ => {}
            }
        }
        if self.has(Defect::LateWritesAreRebased) {
            for Commit { claim, write, .. } in &mut commits {
                if let Ok(record) = self.inner.get(&claim.task).await
                    && let Some(state) = record.state.ok().filter(|s| s.fence == claim.fence)
                    && state.version > write.follows
                {
                    (write.follows, write.state.version) = (state.version, state.version + 1);
                }
            }
        }
        self.take_long().await;
        self.write(Call::Commit(commits.clone()));
        let mut answers = self.inner.commit(commits).await;
        for (answer, refused) in answers.iter_mut().zip(refused) {
            if refused {
                *answer = Err(Error::Fenced("the same write".into()));
            }
            if let Err(Error::Superseded {
                follows, stored, ..
            }) = answer
                && *stored == *follows + 1
                && self.has(Defect::EveryWriteOfAVersionIsTheSame)
            {
                *answer = Ok(());
            }
            if self.has(Defect::LateWritesSucceed) && matches!(answer, Err(Error::Fenced(_))) {
                *answer = Ok(());
            }
        }
        let failed = answers.iter().find_map(|answer| answer.as_ref().err());
        if self.has(Defect::OneBadWriteRefusesAll)
            && let Some(error) = failed.cloned()
        {
            return answers.iter().map(|_| Err(error.clone())).collect();
        }
        spread(answers, &places)
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        if self.has(Defect::LinesAreForgotten) {
            return writes.iter().map(|_| Ok(())).collect();
        }
        self.write(Call::Log(writes.clone()));
        let answers = Coordinator::log(&self.inner, writes).await;
        let accepts = |answer| match answer {
            Err(Error::Fenced(_)) if self.has(Defect::StaleLinesAreAccepted) => Ok(()),
            answer => answer,
        };
        answers.into_iter().map(accepts).collect()
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        let peers = self.inner.peers().await?;
        if !self.has(Defect::PeersAreNeverForgotten) {
            return Ok(peers);
        }
        let mut memory = self.memory.lock().unwrap();
        for peer in peers {
            memory.peers.retain(|known| known.lease != peer.lease);
            memory.peers.push(peer);
        }
        Ok(memory.peers.clone())
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.write(Call::Acknowledge(
            lease.clone(),
            command,
            outcome.to_owned(),
        ));
        let own = self.inner.acknowledge(lease, command, outcome).await;
        if own.is_err() && self.has(Defect::AnyLeaseAcknowledges) {
            for node in self.inner.nodes().await? {
                let lease = Lease::new(node.lease, node.spec.name, lease.ttl);
                if self
                    .inner
                    .acknowledge(&lease, command, outcome)
                    .await
                    .is_ok()
                {
                    return Ok(());
                }
            }
        }
        own
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        self.planted_join_worker(worker).await
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        self.planted_worker(name).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.planted_speak(lease, speaker).await
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.planted_held(lease, tasks).await
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        self.inner.check_clock(retention).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        let mut pruned = 0;
        self.memory.lock().unwrap().pruned = true;
        self.forget_what_others_wait_for().await?;
        if self.has(Defect::AgeCountsFromTheSubmit)
            && let Some(retention) = retention
        {
            let before = self.clock.now() - jiff::SignedDuration::try_from(retention).unwrap();
            let filter =
                Filter::new().states([StateKind::Completed, StateKind::Failed, StateKind::Killed]);
            for record in self.inner.list(&filter, Page::default()).await? {
                if record.submitted_at < before {
                    self.inner.delete(vec![record.task.id]).await;
                    pruned += 1;
                }
            }
        }
        Ok(pruned + self.inner.maintain(retention).await?)
    }
}
