//! Only states, with another coordinator.

use windlass::{
    Fence, Json, TaskState,
    store::{
        Error, StateRemoval, StateStore, StateWrite,
        sqlite::{Options, SqliteStates},
    },
};

use super::support::*;

fn state(incarnation: u32, fence: u64, version: u64) -> TaskState {
    let mut state = TaskState::new(jiff::Timestamp::UNIX_EPOCH);
    state.incarnation = incarnation;
    state.fence = Fence(fence);
    state.version = version;
    state
}

async fn store(states: &SqliteStates, state: TaskState) -> Result<(), Error> {
    let write = StateWrite::new(id("t"), state);
    states.store(vec![write]).await.remove(0)
}

#[tokio::test]
async fn an_older_state_is_refused_and_the_same_one_is_no_change() {
    let file = file();
    let states = SqliteStates::open(file.path(), Options::default())
        .await
        .unwrap();
    assert_eq!(states.load(&[id("t")]).await.remove(0).unwrap(), None);
    store(&states, state(0, 5, 2)).await.unwrap();
    store(&states, state(0, 5, 2)).await.unwrap();
    for older in [state(0, 4, 9), state(0, 5, 1), state(1, 4, 9)] {
        let refused = store(&states, older).await;
        assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
    }
    store(&states, state(1, 6, 0)).await.unwrap();
    drop(states);
    let states = SqliteStates::open(file.path(), Options::default())
        .await
        .unwrap();
    let loaded = states.load(&[id("t")]).await.remove(0).unwrap();
    assert_eq!(loaded, Some(state(1, 6, 0)));
    let removal = |name| StateRemoval::new(id(name), Some((Fence(6), 0)));
    states
        .remove(vec![removal("t"), removal("u")])
        .await
        .into_iter()
        .for_each(Result::unwrap);
    assert_eq!(states.load(&[id("t")]).await.remove(0).unwrap(), None);
}

#[tokio::test]
async fn they_share_a_file_with_a_store() {
    let file = file();
    let tasks = file.open().await;
    let states = SqliteStates::open(file.path(), Options::default())
        .await
        .unwrap();
    submit(&tasks, "t").await;
    store(&states, state(0, 1, 1)).await.unwrap();
    assert!(states.load(&[id("t")]).await.remove(0).unwrap().is_some());
}

#[tokio::test]
async fn states_too_large_or_unreadable_are_reported() {
    let file = file();
    let mut options = Options::default();
    options.limits.max_bytes = 100;
    let states = SqliteStates::open(file.path(), options).await.unwrap();
    let mut large = state(0, 1, 1);
    large.data = Some(Json::new("data", &"x".repeat(100)).unwrap());
    let refused = store(&states, large).await;
    assert!(
        matches!(refused, Err(Error::TooLarge { bytes: 102, .. })),
        "{refused:?}"
    );
    store(&states, state(0, 1, 1)).await.unwrap();
    file.raw()
        .execute("UPDATE windlass_states_alone SET state = 'x'", ())
        .unwrap();
    for _ in 0..2 {
        let loaded = states.load(&[id("t")]).await.remove(0);
        assert!(matches!(loaded, Err(Error::Corrupt { .. })), "{loaded:?}");
    }
}
