//! `redis` from many fibers: one connection for all of them, pipelines, publish and subscribe.

use bast::future::Wait;
use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncCommands, Client};

use crate::{Fault, told};

/// A server, and the one connection that all fibers share: their commands go out together.
#[derive(Clone)]
pub struct Cache {
    client: Client,
    connection: MultiplexedConnection,
}

impl Cache {
    /// Connects.
    ///
    /// # Errors
    /// The server does not answer; the text says what to do.
    pub fn open(url: &str) -> Result<Cache, Fault> {
        let fault = |fault: redis::RedisError| {
            let text = told(&fault);
            format!(
                "cannot connect to {url}: {text} (Debian: apt install redis-server; redis://HOST:PORT)"
            )
        };
        bast_tokio::run(|| {
            let client = Client::open(url).map_err(fault)?;
            let connection = client.get_multiplexed_async_connection().wait().map_err(fault)?;
            Ok(Cache { client, connection })
        })
    }

    /// Adds to a counter; what it is then.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn add(&self, key: &str, amount: i64) -> Result<i64, Fault> {
        let mut connection = self.connection.clone();
        Ok(bast_tokio::run(|| connection.incr(key, amount).wait())?)
    }

    /// Removes keys; how many there were.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn remove(&self, keys: &[String]) -> Result<usize, Fault> {
        let mut connection = self.connection.clone();
        Ok(bast_tokio::run(|| connection.del(keys).wait())?)
    }

    /// Sets keys and reads them back, in one round trip.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn set_and_get(&self, pairs: &[(String, i64)]) -> Result<Vec<i64>, Fault> {
        let mut pipeline = redis::pipe();
        pairs.iter().for_each(|(key, value)| _ = pipeline.set(key, *value).ignore());
        pairs.iter().for_each(|(key, _)| _ = pipeline.get(key));
        let mut connection = self.connection.clone();
        Ok(bast_tokio::run(|| pipeline.query_async(&mut connection).wait())?)
    }

    /// Waits until something is in a list, on a connection of its own: on the shared one it would hold up all others.
    ///
    /// # Errors
    /// Whatever the server says.
    ///
    /// # Cancellation
    /// A suspension point; the connection is closed.
    pub fn pop(&self, list: &str) -> Result<String, Fault> {
        bast_tokio::run(|| {
            let mut connection = self.client.get_multiplexed_async_connection().wait()?;
            connection.set_response_timeout(std::time::Duration::from_secs(3600));
            let (_, value): (String, String) = connection.blpop(list, 0.0).wait()?;
            Ok(value)
        })
    }

    /// Adds to the end of a list.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn push(&self, list: &str, value: &str) -> Result<(), Fault> {
        let mut connection = self.connection.clone();
        Ok(bast_tokio::run(|| connection.rpush(list, value).wait())?)
    }

    /// Sends to all who listen; how many they are.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn publish(&self, channel: &str, message: &str) -> Result<usize, Fault> {
        let mut connection = self.connection.clone();
        Ok(bast_tokio::run(|| connection.publish(channel, message).wait())?)
    }

    /// Listens to a channel.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn subscribe(&self, channel: &str) -> Result<Messages, Fault> {
        bast_tokio::run(|| {
            let mut messages = self.client.get_async_pubsub().wait()?;
            messages.subscribe(channel).wait()?;
            Ok(Messages(messages))
        })
    }
}

/// What comes by a channel: an iterator that suspends its fiber. It ends with the connection.
pub struct Messages(PubSub);

impl Iterator for Messages {
    type Item = Result<String, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let message = bast_tokio::run(|| self.0.on_message().next().wait())?;
        Some(message.get_payload().map_err(Fault::from))
    }
}
