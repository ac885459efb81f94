# Attributes of objects, objects that hold each other, globals of functions, a new class attribute.

# %%
total = 0
events = []


class Account:
    def __init__(self, owner):
        self.owner, self.balance = owner, 0


def add(amount):
    global total
    total += amount
    events.append(amount)


ada = Account("ada")
everyone = {"ada": ada, "list": [ada]}

# %% tags=["heavy"]
bob = Account("bob")
ada.balance += 10
ada.friend = bob
bob.friend = ada
everyone["list"].append(bob)
add(3)
add(4)
Account.limit = 100

# %%
add(1)
everyone["list"][0].balance += 1
print(total, events, Account.limit, bob.limit, ada.balance)
print(ada.friend is bob, bob.friend is ada, everyone["list"][1] is bob, type(bob) is Account)
