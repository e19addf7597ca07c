//! [`Transfer`] and [`Doctor`] for [`PlantedStore`].

use std::path::Path;

use windlass::{
    TaskId, async_trait,
    store::{
        Doctor, Error, Exported, Filter, IfExists, Moment, Page, Registry, Submit, Transfer,
        copy::{Backup, Copied},
        examine::{Examination, Finding, Strays, Verdict},
    },
};

use super::{defect::Defect, journal::Call, repeated::spread, store::PlantedStore};

#[async_trait]
impl Transfer for PlantedStore {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.inner.ids().await
    }

    async fn copied(&self) -> Result<Option<Copied>, Error> {
        self.inner.copied().await
    }

    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error> {
        match self.has(Defect::TheMarkOfACopyIsForgotten) {
            true => Ok(()),
            false => self.inner.set_copied(mark).await,
        }
    }

    async fn backup(&self, to: &Path) -> Result<Backup, Error> {
        self.inner.backup(to).await
    }

    async fn moment(&self) -> Result<Moment, Error> {
        let mut moment = self.inner.moment().await?;
        if self.has(Defect::MomentsForgetClaims) {
            moment.claimed = 0;
        }
        Ok(moment)
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        self.inner.export(ids).await
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let (mut tasks, places) = self.taken(tasks, |exported| exported.task.id.clone());
        self.write(Call::Import(tasks.clone()));
        let given = tasks.clone();
        if self.has(Defect::LimitsAreForgotten) {
            tasks.iter_mut().for_each(|one| one.task.limits.clear());
        }
        if self.has(Defect::MovedTasksLoseTheirLines) {
            tasks.iter_mut().for_each(|one| one.log.clear());
        }
        let answers = self.inner.import(tasks).await;
        if self.has(Defect::ARefusedImportLeavesItsTask) {
            for (exported, answer) in given.into_iter().zip(&answers) {
                if answer.is_err() {
                    let (task, if_exists) = (exported.task, IfExists::Refuse);
                    self.inner.submit(vec![Submit { task, if_exists }]).await;
                }
            }
        }
        spread(answers, &places)
    }
}

#[async_trait]
impl Doctor for PlantedStore {
    async fn examine(&self, _: &Examination) -> Result<Vec<Finding>, Error> {
        let what = (Verdict::Warning, "records that cannot be read");
        let mut unreadable = Strays::default();
        for record in self.inner.list(&Filter::default(), Page::default()).await? {
            let is_reported = match self.defect {
                Some(Defect::ExaminationsFindNothing) => false,
                Some(Defect::ExaminationsBlameTheSound) => record.node.is_some(),
                _ => record.state.is_err(),
            };
            if is_reported {
                unreadable.add(record.task.id.to_string());
            }
        }
        Ok(vec![Finding::none_of("records", what, &unreadable, 0, "")])
    }
}
