//! What an operator does with plans and the store, one small step at a time.
//!
//! Sources (watches, and lists beside them) deliver objects; a delivered object is decided about
//! with the plan of that moment and waits in a queue; a worker writes it later. Tests choose the
//! order of all these steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kollect_collect::{
    gates::{ObjectView, Version},
    plan::{Epoch, Plan, TargetChange, TargetKey, Watch, World},
    store::{Feed, Limits, Listing, Stamp, Store},
};
use kollect_inventory::AttributesBuffer;
use kollect_watch::{
    Resource, WatchScope,
    access::{Permission, Review},
};
use serde_json::Value;

use crate::server::{Event, Server};
use crate::support::settle;

pub(crate) struct Shell {
    pub(crate) server: Server,
    pub(crate) world: World,
    pub(crate) store: Store,
    pub(crate) plan: Arc<Plan>,
    /// Places (a namespace, or `all`) that may not be listed.
    pub(crate) denied: BTreeSet<String>,
    sources: Vec<Source>,
    queues: BTreeMap<(usize, String, String), VecDeque<Job>>,
    next_source: usize,
}

struct Source {
    number: usize,
    watch: Watch,
    /// A list beside a watch, which ends when it is through.
    once: bool,
    feeds: BTreeMap<TargetKey, Arc<Feed>>,
    state: State,
    /// Replaced; to be closed when what replaces it has listed.
    closing: bool,
}

enum State {
    Listing {
        items: VecDeque<Value>,
        at: u64,
        listings: BTreeMap<TargetKey, Arc<Listing>>,
    },
    Watching {
        version: u64,
    },
    Over,
}

/// One delivered object, decided about and not yet written.
struct Job {
    stamp: Stamp,
    object: Value,
    writes: Vec<(Arc<Feed>, Option<Arc<Listing>>, Decided)>,
}

enum Decided {
    Put(AttributesBuffer),
    Skip,
    Fail(String),
    Delete,
}

impl Shell {
    pub(crate) fn new(world: World) -> Self {
        Self::with_limits(world, Limits::default())
    }

    pub(crate) fn with_limits(world: World, limits: Limits) -> Self {
        Shell {
            server: Server::default(),
            world,
            store: Store::new(limits, || {}),
            plan: Arc::new(Plan::new()),
            denied: BTreeSet::new(),
            sources: Vec::new(),
            queues: BTreeMap::new(),
            next_source: 0,
        }
    }

    /// The world changed: plan, and do what the plan says.
    pub(crate) fn replan(&mut self) {
        let denied = &self.denied;
        self.world.access.retain(|_| false);
        let plan = settle(&self.plan, &mut self.world, |review: &Review| {
            let place = review.scope.namespace().unwrap_or("all");
            if denied.contains(place) {
                Permission::Denied
            } else {
                Permission::Allowed
            }
        });
        let plan = Arc::new(plan);
        let delta = plan.delta_from(&self.plan);
        self.plan = Arc::clone(&plan);
        self.store.apply(&plan, &delta);

        for source in &mut self.sources {
            for (key, change) in &delta.targets {
                if !matches!(change, TargetChange::Revise(_)) {
                    source.forget(key);
                }
            }
            if delta.close.contains(&source.watch) && !source.once {
                source.closing = true;
            }
            source.find_feeds(&self.store, &plan);
        }
        for watch in &delta.open {
            self.open(watch.clone(), None);
        }
        for ((resource, scope), keys) in &delta.relist {
            let watch = Watch {
                scope: scope.clone(),
                ..self.widest(resource, scope)
            };
            self.open(watch, Some(keys));
        }
        self.close_replaced();
    }

    /// A watch of the plan that covers a scope.
    fn widest(&self, resource: &Resource, scope: &WatchScope) -> Watch {
        let plan = self.plan.resource(resource).expect("it is watched");
        let mut watches = plan.watches.iter();
        let watch = watches.find(|watch| watch.scope.covers(scope));
        watch.expect("a watch covers it").clone()
    }

    fn open(&mut self, watch: Watch, only: Option<&BTreeSet<TargetKey>>) {
        let mut source = Source {
            number: self.next_source,
            watch,
            once: only.is_some(),
            feeds: BTreeMap::new(),
            state: State::Over,
            closing: false,
        };
        self.next_source += 1;
        source.find_feeds(&self.store, &self.plan);
        if let Some(only) = only {
            source.feeds.retain(|key, _| only.contains(key));
        }
        source.list(&self.server);
        self.sources.push(source);
    }

    /// A watch has listed: what older ones report of its scope does not count any more.
    fn retire_older(&self, index: usize) {
        let new = &self.sources[index];
        if new.once || new.closing {
            return;
        }
        let older = self.sources.iter().filter(|source| {
            source.closing
                && source.number < new.number
                && source.watch.resource == new.watch.resource
        });
        for feed in older.flat_map(|source| source.feeds.values()) {
            feed.retire(new.watch.scope.clone());
        }
    }

    /// Closes what was replaced by something that has listed.
    fn close_replaced(&mut self) {
        let busy: BTreeSet<Arc<Resource>> = self
            .sources
            .iter()
            .filter(|source| !source.closing && !source.once)
            .filter(|source| matches!(source.state, State::Listing { .. }))
            .map(|source| Arc::clone(&source.watch.resource))
            .collect();
        self.sources.retain(|source| {
            let stays = match source.state {
                State::Over => false,
                _ => !source.closing || busy.contains(&source.watch.resource),
            };
            if !stays && !source.once {
                source.feeds.values().for_each(|feed| feed.close());
            }
            stays
        });
    }

    pub(crate) fn sources(&self) -> usize {
        self.sources.len()
    }

    /// One source delivers one thing. Returns whether there was anything.
    pub(crate) fn deliver(&mut self, index: usize) -> bool {
        let Some(source) = self.sources.get_mut(index) else {
            return false;
        };
        let number = source.number;
        let (event, listings) = match &mut source.state {
            State::Over => return false,
            State::Watching { version } => {
                let Some((at, event)) = self.server.next(&source.watch, *version) else {
                    return false;
                };
                *version = at;
                (event, BTreeMap::new())
            }
            State::Listing {
                items, listings, ..
            } => match items.pop_front() {
                Some(object) => (Event::Applied(object), listings.clone()),
                None => return self.finish(index),
            },
        };
        let job = decide(&self.plan, source, event, &listings);
        let view = ObjectView::new(&job.object);
        let queue = (number, view.namespace().to_owned(), view.name().to_owned());
        self.queues.entry(queue).or_default().push_back(job);
        true
    }

    /// Ends a listing, if everything it delivered has been written.
    fn finish(&mut self, index: usize) -> bool {
        let source = &mut self.sources[index];
        if self
            .queues
            .keys()
            .any(|(number, ..)| *number == source.number)
        {
            return false;
        }
        let after = if source.once {
            State::Over
        } else {
            let State::Listing { at, .. } = source.state else {
                return false;
            };
            State::Watching { version: at }
        };
        if let State::Listing { at, listings, .. } = std::mem::replace(&mut source.state, after) {
            for listing in listings.into_values() {
                let listing = Arc::into_inner(listing).expect("nobody writes any more");
                listing.finish(Version::new(at));
            }
        }
        self.retire_older(index);
        self.close_replaced();
        true
    }

    /// A source loses its connection and has to list again.
    pub(crate) fn interrupt(&mut self, index: usize) {
        if let Some(source) = self.sources.get_mut(index) {
            source.list(&self.server);
        }
    }

    /// A worker writes the first job of one queue. Returns whether there was any.
    pub(crate) fn write(&mut self, index: usize) -> bool {
        let Some(key) = self.queues.keys().nth(index).cloned() else {
            return false;
        };
        let queue = self.queues.get_mut(&key).expect("it was found");
        let job = queue.pop_front().expect("queues are not empty");
        if queue.is_empty() {
            self.queues.remove(&key);
        }
        let view = ObjectView::new(&job.object);
        let object = view.identity();
        for (feed, listing, decided) in &job.writes {
            match (decided, listing) {
                (Decided::Put(row), None) => feed.put(job.stamp, object, row.view()),
                (Decided::Put(row), Some(listing)) => listing.put(job.stamp, object, row.view()),
                (Decided::Skip, None) => feed.skip(job.stamp, object),
                (Decided::Skip, Some(listing)) => listing.skip(job.stamp, object),
                (Decided::Fail(error), None) => feed.fail(job.stamp, object, error),
                (Decided::Fail(error), Some(listing)) => listing.fail(job.stamp, object, error),
                (Decided::Delete, _) => feed.delete(job.stamp.version, object),
            };
        }
        true
    }

    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Does everything that is left to do.
    pub(crate) fn finish_all(&mut self) {
        loop {
            let mut moved = false;
            for index in (0..self.sources.len()).rev() {
                moved |= self.deliver(index);
            }
            while self.write(0) {
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// What a target should hold: its objects, decided about afresh. The second part is the number
    /// of objects that cannot be extracted.
    pub(crate) fn expected(&self, key: &TargetKey) -> (BTreeMap<String, String>, usize) {
        let mut rows = BTreeMap::new();
        let mut failing = 0;
        let collection = self.plan.target(key).and_then(|target| target.collection());
        let resource = collection.and_then(|c| self.plan.resource(&c.resource));
        if let Some(plan) = resource {
            for object in self.server.objects(&plan.resource) {
                let view = ObjectView::new(object);
                let interests = plan.interests(view.namespace());
                for interest in interests.filter(|interest| interest.key == key) {
                    if !interest.decide(&view).collects() {
                        continue;
                    }
                    let mut buffer = AttributesBuffer::new();
                    let extractor = &interest.collection.extraction.extractor;
                    match extractor.extract(object, &mut buffer) {
                        Ok(attributes) => {
                            let place =
                                format!("{}/{}/{}", view.namespace(), view.name(), view.uid());
                            rows.insert(place, attributes.to_json().as_str().to_owned());
                        }
                        Err(_) => failing += 1,
                    }
                }
            }
        }
        (rows, failing)
    }

    /// What a target holds.
    pub(crate) fn held(&self, key: &TargetKey) -> BTreeMap<String, String> {
        let rows = self.store.rows(key).into_iter();
        rows.map(|row| {
            let origin = row.origin();
            assert_eq!(origin.target_name(), &*key.name);
            assert_eq!(
                origin.target_namespace(),
                key.row_namespace(origin.namespace())
            );
            let place = format!(
                "{}/{}/{}",
                origin.namespace(),
                row.name(),
                &*row.uid().text()
            );
            (place, row.attributes().to_json().as_str().to_owned())
        })
        .collect()
    }
}

impl Source {
    /// Forgets a target that ended or starts anew.
    fn forget(&mut self, key: &TargetKey) {
        self.feeds.remove(key);
        if let State::Listing { listings, .. } = &mut self.state {
            listings.remove(key);
        }
    }

    /// Finds the targets that this watch serves now.
    fn find_feeds(&mut self, store: &Store, plan: &Plan) {
        let unserved: Vec<TargetKey> = plan
            .targets()
            .filter(|target| {
                let collection = target.collection();
                collection.is_some_and(|collection| !self.watch.serves(collection))
            })
            .map(|target| target.key.clone())
            .collect();
        for key in &unserved {
            self.forget(key);
        }
        let Some(resource) = plan.resource(&self.watch.resource) else {
            return;
        };
        if self.once && !matches!(self.state, State::Over) {
            return;
        }
        for target in resource.targets_in(&self.watch.scope) {
            if !self.feeds.contains_key(&target.key)
                && !unserved.contains(&target.key)
                && let Some(feed) = store.feed(&target.key)
            {
                self.feeds.insert(target.key.clone(), feed);
            }
        }
    }

    /// Begins to list, from the start.
    fn list(&mut self, server: &Server) {
        let begin = |(key, feed): (&TargetKey, &Arc<Feed>)| {
            let listing = feed.begin_listing(self.watch.scope.clone());
            (key.clone(), Arc::new(listing))
        };
        let listings = self.feeds.iter().map(begin).collect();
        self.state = State::Listing {
            items: server.list(&self.watch).into(),
            at: server.version(),
            listings,
        };
    }
}

/// Decides about a delivered object, for every target of its namespace that the source serves.
fn decide(
    plan: &Plan,
    source: &Source,
    event: Event,
    listings: &BTreeMap<TargetKey, Arc<Listing>>,
) -> Job {
    let (object, deleted) = match event {
        Event::Applied(object) => (object, false),
        Event::Deleted(object) => (object, true),
    };
    let version = ObjectView::new(&object).version();
    let epoch: Epoch = plan.epoch();
    let mut writes = Vec::new();
    let resource = plan.resource(&source.watch.resource);
    if let Some(resource) = resource {
        let decoded = resource.projection.decode(object.to_string().as_bytes());
        let decoded = decoded.expect("it is an object");
        let view = ObjectView::new(decoded.value());
        for interest in resource.interests(view.namespace()) {
            let Some(feed) = source.feeds.get(interest.key) else {
                continue;
            };
            let verdict = interest.decide(&view);
            feed.note_policies(view.identity(), &verdict.policy_failures);
            let decided = if deleted {
                Decided::Delete
            } else if verdict.collects() {
                let mut buffer = AttributesBuffer::new();
                let extractor = &interest.collection.extraction.extractor;
                match extractor.extract(decoded.value(), &mut buffer) {
                    Ok(_) => Decided::Put(buffer),
                    Err(error) => Decided::Fail(error.to_string()),
                }
            } else {
                Decided::Skip
            };
            let listing = listings.get(interest.key).cloned();
            writes.push((Arc::clone(feed), listing, decided));
        }
    }
    Job {
        stamp: Stamp { epoch, version },
        object,
        writes,
    }
}
