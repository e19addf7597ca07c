//! The writes of [`PlantedStore`] with one operation each.

use windlass::{
    CommandId, StateKind, TaskId,
    store::{Error, IfExists, Registry, SendCommand, Submit, Submitted, Transfer},
};

use super::{
    defect::Defect,
    journal::{Call, force_delete},
    repeated::spread,
    store::PlantedStore,
    tasks::with_floats,
};

impl PlantedStore {
    pub(crate) async fn planted_submit(
        &self,
        mut tasks: Vec<Submit>,
    ) -> Vec<Result<Submitted, Error>> {
        let (taken, places) = self.taken(tasks, |submit| submit.task.id.clone());
        tasks = taken;
        if self.has(Defect::UniqueKeysAreIgnored) {
            tasks
                .iter_mut()
                .for_each(|submit| submit.task.unique = None);
        }
        if self.has(Defect::PausesAreForgotten) {
            tasks
                .iter_mut()
                .for_each(|submit| submit.task.paused = false);
        }
        if self.has(Defect::IdsAreNeverFree) {
            tasks
                .iter_mut()
                .for_each(|submit| submit.task.free_id = false);
        }
        if self.has(Defect::EndedTasksHaveNoKey) {
            for submit in tasks.iter_mut().filter(|one| one.task.unique.is_some()) {
                submit.if_exists = IfExists::ReplaceFinished;
            }
        }
        if self.has(Defect::IntegersBecomeFloats) {
            tasks = tasks.into_iter().map(with_floats).collect();
        }
        let rules: Vec<IfExists> = tasks.iter().map(|submit| submit.if_exists).collect();
        self.write(Call::Submit(tasks.clone()));
        let mut answers = self.inner.submit(tasks).await;
        for (answer, if_exists) in answers.iter_mut().zip(rules) {
            let exists = matches!(answer, Err(Error::AlreadyExists { .. }));
            let is_over = matches!(answer, Err(Error::AlreadyFinished { .. }));
            let is_unreadable = matches!(answer, Err(Error::Corrupt { .. }));
            match (self.defect, if_exists) {
                (Some(Defect::UnreadableTasksAreLive), IfExists::Refuse) if is_over => {
                    *answer = Err(Error::task_exists(&"bad".parse().unwrap()));
                }
                (Some(Defect::UnreadableTasksAreTheSame), _) if is_unreadable => {
                    *answer = Ok(Submitted::Existing(StateKind::Runnable));
                }
                (Some(Defect::TakenIdsAreAccepted), IfExists::Refuse) if exists => {
                    *answer = Ok(Submitted::New);
                }
                (Some(Defect::EveryTaskIsTheSame), IfExists::Same) if exists => {
                    *answer = Ok(Submitted::Existing(StateKind::Runnable));
                }
                _ => {}
            }
        }
        let failed = answers.iter().find_map(|answer| answer.as_ref().err());
        if self.has(Defect::OneBadSubmitRefusesAll)
            && let Some(error) = failed.cloned()
        {
            return answers.iter().map(|_| Err(error.clone())).collect();
        }
        spread(answers, &places)
    }

    pub(crate) async fn planted_send(
        &self,
        mut commands: Vec<SendCommand>,
    ) -> Vec<Result<u64, Error>> {
        let (taken, places) = self.taken(commands, |send| send.id.clone());
        commands = taken;
        if self.has(Defect::RepeatedCommandsAreNew) {
            for send in &mut commands {
                if self.inner.command(&send.id).await.is_ok() {
                    send.id = CommandId::new(format!("{}-again", send.id)).unwrap();
                }
            }
        }
        self.write(Call::Send(commands.clone()));
        spread(self.inner.send(commands).await, &places)
    }

    pub(crate) async fn planted_delete(&self, mut ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let asked = ids.len();
        if self.has(Defect::DeletingTakesThePrefix) {
            let all = self.inner.ids().await.unwrap();
            let named = ids.clone();
            let is_hit = |id: &TaskId| {
                let id = id.as_str();
                named
                    .iter()
                    .any(|n| *n.as_str() != *id && id.starts_with(n.as_str()))
            };
            ids.extend(all.into_iter().filter(is_hit));
        }
        self.write(Call::Delete(ids.clone()));
        let mut answers = force_delete(&self.inner, ids).await;
        answers.truncate(asked);
        answers
    }

    pub(crate) async fn planted_retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let (mut ids, places) = self.taken(ids, TaskId::clone);
        let mut answers = Vec::new();
        if self.has(Defect::UnreadableTasksAreNotRetried) {
            answers = ids.drain(..).map(|_| Ok(())).collect();
        }
        self.memory.lock().unwrap().retried.extend(ids.clone());
        self.write(Call::Retry(ids.clone()));
        answers.extend(self.inner.retry(ids).await);
        for answer in &mut answers {
            let planted = match answer {
                Err(Error::Invalid(_)) => {
                    self.has(Defect::LiveTasksAreRetried)
                        || self.has(Defect::ClaimedTasksAreRetried)
                }
                _ => false,
            };
            if planted {
                *answer = Ok(());
            }
        }
        spread(answers, &places)
    }
}
