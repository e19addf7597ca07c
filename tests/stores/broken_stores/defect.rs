//! [`Defect`]: what can be wrong with a store.

use super::journal::Call;

/// One defect. Each is planted alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    // Acknowledged before it is durable.
    JoinsAreNotDurable,
    RenewalsAreNotDurable,
    DescriptionsAreNotDurable,
    LeavesAreNotDurable,
    ClaimsAreNotDurable,
    CommitsAreNotDurable,
    AcknowledgementsAreNotDurable,
    SubmitsAreNotDurable,
    CommandsAreNotDurable,
    DeletionsAreNotDurable,
    RetriesAreNotDurable,
    PurgesAreNotDurable,
    NodeCommandsAreNotDurable,
    ImportsAreNotDurable,
    TransactionsAreNotDurable,
    // Claims and writes.
    FencesRepeat,
    LateWritesSucceed,
    RepeatedWritesAreRefused,
    EveryWriteOfAVersionIsTheSame,
    LateWritesAreRebased,
    OneBadWriteRefusesAll,
    EffectsAreDropped,
    EffectsOnTasksAreDropped,
    GuardsOfMessagesAreIgnored,
    EffectsRefuseEveryTakenId,
    RepeatedItemsAreSkipped,
    LossesAreNotCounted,
    /// Not a defect: a sound store may be slow.
    CallsTakeLong,
    // Commands.
    OutcomesAreOverwritten,
    OutcomesAreForgotten,
    CommandsReplaceEachOther,
    RepeatedCommandsAreNew,
    PayloadsAreForgotten,
    RepliesAreForgotten,
    // Watches.
    ASecondWatchMissesTasks,
    AStaleViewComesLast,
    EndsAreNotDelivered,
    EveryKindIsDelivered,
    WatchesOutliveTheirLease,
    LossesAreDeliveredLate,
    CommandsAreNotDelivered,
    NodeCommandsAreNotDelivered,
    DataVersionsAreNotDelivered,
    DataVersionsAreNotStored,
    // Waiting tasks.
    WaitsAreForgotten,
    WaitersLookClaimable,
    ReadyWaitersAreNotDelivered,
    OutcomesOfWaitsAreForgotten,
    // Limits.
    LimitsAreForgotten,
    SlotsAreNeverFree,
    HeldTasksLookClaimable,
    NextTasksAreNotDelivered,
    OverLimitIsNotMarked,
    LatenessCountsTheRun,
    DifferencesAreNotNamed,
    HeldTasksNameNoLimit,
    KeysAreNotDelivered,
    LimitsInUseAreNotListed,
    LimitsInUseLoseTheirTemplate,
    // Leases and nodes.
    PeersAreNeverForgotten,
    NamesAreShared,
    EndedLeasesAreRenewed,
    DescriptionsAreForgotten,
    EndedLeasesAreDescribed,
    LeavingIsForgotten,
    AbandonedClaimsAreReleased,
    AnyLeaseAcknowledges,
    // Remote workers.
    WorkersGetAnotherLease,
    SecretsAreIgnored,
    SecretsAreListed,
    DescriptionsForgetTheSpeaker,
    NodesBecomeWorkers,
    EveryServerSpeaks,
    SpeakersAreNotCompared,
    EveryServerRecordsTheStatus,
    WorkersClaimAgain,
    ReadClaimsAreMadeAgain,
    ReadClaimsHaveAnotherFence,
    EveryClaimIsRead,
    CommandsToWorkersAreNotDelivered,
    TasksOfWorkersAreNotDelivered,
    WorkersAreNotDurable,
    SpeakersAreNotDurable,
    // Tasks.
    TakenIdsAreAccepted,
    PausesAreForgotten,
    IdsAreNeverFree,
    EveryTaskIsTheSame,
    IntegersBecomeFloats,
    OneBadSubmitRefusesAll,
    UnknownTasksAreEmpty,
    ListsAreNotInOrder,
    PagesAreInOneDirection,
    PagesBeginAfterTheirTime,
    SendersAreForgotten,
    DeletionsAreNotAudited,
    LinesAreForgotten,
    LinesAreNotDurable,
    LinesOfCommitsAreForgotten,
    StaleLinesAreAccepted,
    MovedTasksLoseTheirLines,
    AuditsTakeTheOldest,
    CountsOmitTheQuarantined,
    CountsStayAsTheyWere,
    SleepersCountAsAvailable,
    DeletingTakesThePrefix,
    LiveTasksAreRetried,
    PurgesTakeEveryState,
    PruningTakesWhatOthersWaitFor,
    AgeCountsFromTheSubmit,
    ALimitTakesTheOldest,
    ChangesRepeatTheLast,
    CursorsBeyondTheEndAreAccepted,
    ARefusedImportLeavesItsTask,
    TheMarkOfACopyIsForgotten,
    MomentsForgetClaims,
    IdentitiesAreNotDurable,
    EveryValueIsListed,
    VersionsStay,
    ExpectationsAreIgnored,
    ValuesAreNotAudited,
    ValuesAreNotDurable,
    DeadlinesAreNotDelivered,
    PlacesAreNotDelivered,
    UniqueKeysAreIgnored,
    EndedTasksHaveNoKey,
    // Transactions.
    TransactionsAreHalfApplied,
    RefusalsNameTheFirst,
    RepeatedTransactionsAreNew,
    PruningForgetsTransactions,
    IdsStandForAnyOperations,
    GuardsAreIgnored,
    GuardsSeeTheOperations,
    ClaimedTasksAreRescheduled,
    RescheduledTasksKeepTheirTime,
    KindsStay,
    ReschedulesKeepTheVersion,
    PropsStay,
    SchedulesMove,
    RetriesTakeNothing,
    ClaimedTasksAreDeleted,
    GuardsAloneAreRefused,
    RepeatedTasksAreAccepted,
    LargeTransactionsAreAccepted,
    OneBadTransactionRefusesAll,
    // Records that cannot be read.
    UnreadableTasksAreOmitted,
    UnreadableTasksAreNotRetried,
    UnreadableTasksAreLive,
    UnreadableTasksAreTheSame,
    RetriesCountFromNothing,
    ClaimedTasksAreRetried,
    QuarantinesAreToldOnce,
    ErrorsAreReworded,
    ExaminationsFindNothing,
    ExaminationsBlameTheSound,
}

impl Defect {
    /// Whether a store that was reopened has forgotten this call.
    pub(crate) fn loses(self, call: &Call) -> bool {
        matches!(
            (self, call),
            (Self::JoinsAreNotDurable, Call::Join(..))
                | (Self::RenewalsAreNotDurable, Call::Renew(..))
                | (Self::DescriptionsAreNotDurable, Call::Describe(..))
                | (Self::WorkersAreNotDurable, Call::JoinWorker(_))
                | (Self::SpeakersAreNotDurable, Call::Speak(..))
                | (Self::LeavesAreNotDurable, Call::Leave(_))
                | (Self::ClaimsAreNotDurable, Call::Claim(..))
                | (Self::CommitsAreNotDurable, Call::Commit(_))
                | (Self::LinesAreNotDurable, Call::Log(_))
                | (Self::AcknowledgementsAreNotDurable, Call::Acknowledge(..))
                | (Self::SubmitsAreNotDurable, Call::Submit(_))
                | (Self::CommandsAreNotDurable, Call::Send(_))
                | (Self::DeletionsAreNotDurable, Call::Delete(_))
                | (Self::RetriesAreNotDurable, Call::Retry(_))
                | (Self::PurgesAreNotDurable, Call::Purge(..))
                | (Self::NodeCommandsAreNotDurable, Call::SendNode(..))
                | (Self::ValuesAreNotDurable, Call::SetValue(_))
                | (Self::ImportsAreNotDurable, Call::Import(_))
                | (Self::TransactionsAreNotDurable, Call::Apply(_))
        )
    }
}
