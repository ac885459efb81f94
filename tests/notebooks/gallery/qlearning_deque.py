# Reinforcement learning: a replay buffer in a deque, a table by defaultdict, epsilon as a global.

# %%
import random
from collections import defaultdict, deque, namedtuple

Transition = namedtuple("Transition", ("state", "action", "reward", "next_state"))
random.seed(0)
memory = deque(maxlen=20)
Q = defaultdict(lambda: [0.0, 0.0])
epsilon = 1.0


class Walk:
    episodes = 0

    def reset(self):
        Walk.episodes += 1
        self.at = 2
        return self.at

    def step(self, action):
        self.at += 1 if action else -1
        return self.at, float(self.at == 4), self.at in (0, 4)


env = Walk()


# %%
def choose(state):
    global epsilon
    epsilon *= 0.99
    if random.random() < epsilon:
        return random.randrange(2)
    return max((0, 1), key=lambda a: Q[state][a])


def learn(batch):
    for t in batch:
        Q[t.state][t.action] += 0.5 * (t.reward + max(Q[t.next_state]) - Q[t.state][t.action])


# %% tags=["heavy"]
rewards = []
for episode in range(10):
    state, done, score = env.reset(), False, 0
    while not done:
        action = choose(state)
        next_state, reward, done = env.step(action)
        memory.append(Transition(state, action, reward, next_state))
        state, score = next_state, score + reward
        learn(random.sample(list(memory), min(4, len(memory))))
    rewards.append(score)
print(sum(rewards))

# %%
choose(2)
print(round(epsilon, 6), len(memory), memory.maxlen, Walk.episodes, env.at, sorted(Q))
Q["new"], memory[-1].reward, random.random()
