//! The remote workers of [`PlantedStore`].

use windlass::{
    Fence, NodeName, TaskId,
    store::{
        Claimed, Coordinator, Error, Lease, NewWorker, NodeRecord, RemoteWorker, Speaker,
        WorkerRecord,
    },
};

use super::{defect::Defect, journal::Call, store::PlantedStore};

impl PlantedStore {
    pub(crate) async fn planted_join_worker(
        &self,
        worker: &NewWorker,
    ) -> Result<WorkerRecord, Error> {
        let mut worker = worker.clone();
        let name = worker.spec.name.clone();
        if self.has(Defect::NodesBecomeWorkers) {
            worker.spec.worker = Some(RemoteWorker::default());
        }
        if let Some(live) = self.inner.worker(&name).await? {
            if self.has(Defect::SecretsAreIgnored) {
                worker.secret = live.secret;
            }
            if self.has(Defect::WorkersGetAnotherLease) {
                self.inner.leave(&live.lease).await?;
            }
        }
        self.write(Call::JoinWorker(worker.clone()));
        self.inner.join_worker(&worker).await
    }

    pub(crate) async fn planted_worker(
        &self,
        name: &NodeName,
    ) -> Result<Option<WorkerRecord>, Error> {
        let mut found = self.inner.worker(name).await?;
        if let Some(worker) = &mut found
            && self.memory.lock().unwrap().described
            && self.has(Defect::DescriptionsForgetTheSpeaker)
        {
            worker.speaker = Speaker::default();
        }
        Ok(found)
    }

    pub(crate) async fn planted_speak(
        &self,
        lease: &Lease,
        speaker: &Speaker,
    ) -> Result<Lease, Error> {
        self.write(Call::Speak(lease.clone(), speaker.clone()));
        match self.inner.speak(lease, speaker).await {
            Err(Error::OtherSpeaker { .. }) if self.has(Defect::EveryServerSpeaks) => {
                let mut lease = lease.clone();
                lease.speaker = Some(speaker.clone());
                Ok(lease)
            }
            spoken => spoken,
        }
    }

    pub(crate) async fn planted_held(
        &self,
        lease: &Lease,
        tasks: Option<Vec<TaskId>>,
    ) -> Result<Vec<Claimed>, Error> {
        let tasks = tasks.filter(|_| !self.has(Defect::EveryClaimIsRead));
        let mut held = self.inner.held(lease, tasks).await?;
        if self.has(Defect::ReadClaimsAreMadeAgain) {
            let ids = held.iter().map(|one| one.claim.task.clone()).collect();
            let unspoken = Lease::new(lease.id, lease.node.clone(), lease.ttl);
            let again = self.inner.claim(&unspoken, ids).await;
            return Ok(again.into_iter().flatten().flatten().collect());
        }
        if self.has(Defect::ReadClaimsHaveAnotherFence) {
            for claimed in &mut held {
                claimed.claim.fence = Fence(claimed.claim.fence.0 + 1);
            }
        }
        Ok(held)
    }

    /// Adds the secrets of workers to their descriptions.
    pub(crate) async fn with_secrets(&self, nodes: &mut [NodeRecord]) -> Result<(), Error> {
        for node in nodes {
            if let Some(worker) = self.inner.worker(&node.spec.name).await? {
                node.spec.worker = Some(RemoteWorker::new("", worker.secret));
            }
        }
        Ok(())
    }
}
