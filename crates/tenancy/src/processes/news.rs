//! Which control planes' processes something has happened to, for whoever looks at them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Names that are waiting to be looked at; each once, so that there are never more than processes.
#[derive(Default)]
pub struct News {
    names: Mutex<BTreeSet<String>>,
    more: Notify,
}

impl News {
    pub fn add(&self, name: &str) {
        self.names.lock().insert(name.to_owned());
        self.more.notify_one();
    }

    async fn next(&self) -> String {
        loop {
            if let Some(name) = self.names.lock().pop_first() {
                return name;
            }
            self.more.notified().await;
        }
    }

    /// For one reader at a time. What was not read yet is kept for the next.
    pub fn read(self: Arc<Self>) -> BoxStream<'static, String> {
        stream::unfold(self, async |news| {
            let name = news.next().await;
            Some((name, news))
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_name_once_and_none_lost() {
        let news = Arc::new(News::default());
        for name in ["b", "a", "b"] {
            news.add(name);
        }
        let mut reader = news.clone().read();
        assert_eq!(reader.next().await.as_deref(), Some("a"));
        // Who stops reading takes nothing away from the next.
        drop(reader);
        let mut reader = news.clone().read();
        assert_eq!(reader.next().await.as_deref(), Some("b"));
        assert_eq!(reader.next().now_or_never(), None);
        news.add("c");
        assert_eq!(reader.next().await.as_deref(), Some("c"));
    }
}
