// The device plugin of a node of one's own: it names the node's declared GPUs, as NVIDIA's plugin
// names real ones, and pods that get some are told which. There is no device behind them.
//
//	device-plugin RESOURCE FILE
//
// FILE has a name a line; what is written there later holds from then on.
package main

import (
	"context"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const looksEvery = 200 * time.Millisecond

type plugin struct {
	api.UnimplementedDevicePluginServer
	file string
}

func (p *plugin) names() []string {
	text, err := os.ReadFile(p.file)
	if err != nil {
		log.Fatal(err)
	}
	return strings.Fields(string(text))
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch tells of the GPUs, and again whenever they are others.
func (p *plugin) ListAndWatch(_ *api.Empty, kubelet api.DevicePlugin_ListAndWatchServer) error {
	for told, first := []string(nil), true; kubelet.Context().Err() == nil; time.Sleep(looksEvery) {
		names := p.names()
		if !first && slices.Equal(names, told) {
			continue
		}
		devices := []*api.Device{}
		for _, name := range names {
			devices = append(devices, &api.Device{ID: name, Health: api.Healthy})
		}
		if err := kubelet.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		told, first = names, false
	}
	return nil
}

// Allocate tells a container which GPUs it has: its node has chosen them.
func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, one := range asked.ContainerRequests {
		names := slices.Sorted(slices.Values(one.DevicesIds))
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(names, ",")},
		})
	}
	return answer, nil
}

// register has the node's kubelet ask the plugin at a socket.
func register(resource, socket string) error {
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	wire, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer wire.Close()
	_, err = api.NewRegistrationClient(wire).Register(limited, &api.RegisterRequest{
		Version: api.Version, Endpoint: filepath.Base(socket), ResourceName: resource,
	})
	return err
}

func main() {
	resource, socket := os.Args[1], filepath.Join(api.DevicePluginPath, "gpus.sock")
	found := &plugin{file: os.Args[2]}
	var server *grpc.Server
	// A kubelet removes all sockets there as it begins, and knows of no plugin then.
	for ; ; time.Sleep(looksEvery) {
		_, own := os.Stat(socket)
		if _, err := os.Stat(api.KubeletSocket); err != nil || (own == nil && server != nil) {
			continue
		}
		if server != nil {
			server.Stop()
		}
		os.Remove(socket)
		listener, err := net.Listen("unix", socket)
		if err != nil {
			log.Fatal(err)
		}
		server = grpc.NewServer()
		api.RegisterDevicePluginServer(server, found)
		go server.Serve(listener)
		if err := register(resource, socket); err != nil {
			log.Print(err)
			server.Stop()
			server = nil
			continue
		}
		log.Printf("registered %s: %s", resource, strings.Join(found.names(), " "))
	}
}
